"""The files that deploy a plan: engines' command lines, the gateway's file, manifests, a scenario to simulate it."""

from poise.plan.deploy.folder import FILES, refused, write_deployment
from poise.plan.deploy.setting import Setting

__all__ = ["FILES", "Setting", "refused", "write_deployment"]
