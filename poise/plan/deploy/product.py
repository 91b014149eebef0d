"""Kubernetes' names for a device: the resource, the node label, and images of engines for it."""

from __future__ import annotations

from poise.core.errors import UserError
from poise.core.spec import Device
from poise.plan.deploy.setting import Setting

RESOURCE = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu"}
"""The resource of a device plugin, by maker."""

IMAGES = {
    ("vllm", "NVIDIA"): "vllm/vllm-openai:v0.32.0",
    ("vllm", "AMD"): "vllm/vllm-openai-rocm:v0.32.0",
    ("sglang", "NVIDIA"): "lmsysorg/sglang:v0.5.23",
}
"""Images by engine and maker, of the versions whose flags are written."""

OWN_IMAGE = "registry.example/poise:0.1"
"""The gateway's image: the user builds it."""

NVIDIA = {
    "A100-SXM-40GB": "NVIDIA-A100-SXM4-40GB",
    "A100-SXM-80GB": "NVIDIA-A100-SXM4-80GB",
    "A100-PCIe-40GB": "NVIDIA-A100-PCIE-40GB",
    "A100-PCIe-80GB": "NVIDIA-A100-80GB-PCIe",
    "H100-PCIe-80GB": "NVIDIA-H100-PCIe",
    "H100-SXM-80GB": "NVIDIA-H100-80GB-HBM3",
    "H100-NVL": "NVIDIA-H100-NVL",
    "H200-SXM-141GB": "NVIDIA-H200",
    "H200-NVL": "NVIDIA-H200-NVL",
    "B200-SXM-180GB": "NVIDIA-B200",
    "GB200": "NVIDIA-GB200",
    "GB300": "NVIDIA-GB300",
    "RTX-PRO-6000-Blackwell-Server": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
    "RTX-6000-Ada": "NVIDIA-RTX-6000-Ada-Generation",
    "RTX-A6000": "NVIDIA-RTX-A6000",
    "T4": "Tesla-T4",
    "V100-SXM2-16GB": "Tesla-V100-SXM2-16GB",
    "V100-SXM2-32GB": "Tesla-V100-SXM2-32GB",
    **{name: f"NVIDIA-{name}" for name in ("A10", "A10G", "A30", "A40", "L4", "L20", "L40S", "H20", "H800")},
    **{f"RTX-{n}": f"NVIDIA-GeForce-RTX-{n}" for n in ("3090", "4090", "5090")},
}
"""`nvidia.com/gpu.product` by device: what the driver calls it, with - for spaces (NVIDIA GPU feature discovery)."""

AMD = {"MI300X": "AMD_Instinct_MI300X_OAM"}
"""`amd.com/gpu.product-name` by device (AMD's node labeller)."""

OWN_LABEL = "poise/device"
"""The label for nodes whose devices have no known labeller, to be set by hand."""


def node_selector(device: Device) -> dict[str, str]:
    """The label of nodes that have the device."""
    if device.name in NVIDIA:
        return {"nvidia.com/gpu.product": NVIDIA[device.name]}
    if device.name in AMD:
        return {"amd.com/gpu.product-name": AMD[device.name]}
    return {OWN_LABEL: device.name}


def resource(device: Device) -> str:
    """The resource by which pods ask for devices."""
    if device.vendor not in RESOURCE:
        raise UserError(f"the resource of {device.vendor}'s devices is not known; NVIDIA's and AMD's are")
    return RESOURCE[device.vendor]


def image(device: Device, setting: Setting) -> str:
    """The engine's image; UserError where none is known or given."""
    made = setting.images.get(device.vendor) or IMAGES.get((setting.engine, device.vendor))
    if made is None:
        raise UserError(
            f"no image of {setting.engine} for {device.vendor}'s devices is known; give one, as in "
            f"--image {device.vendor}=IMAGE"
        )
    return made
