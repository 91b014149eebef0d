"""Integrations: the same `Control` behind other data planes, such as Envoy and Ray Serve; and on Kubernetes."""
