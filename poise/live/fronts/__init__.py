"""Other fronts: the same `Control` behind data planes that others run, as Envoy and Ray Serve; and on Kubernetes."""
