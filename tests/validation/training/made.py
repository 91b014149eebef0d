"""Rows of tables of training runs, made by hand."""

from __future__ import annotations

COLUMNS = (
    "source,table,model,layers,hidden,heads,kv_heads,ffn,vocab,seq,experts,experts_active,hardware,n_gpus,tp,pp,vpp,dp,"
    "cp,ep,micro_batch,global_batch,recompute,precision,schedule,metric,value,unit,notes"
)
USUAL = {
    "source": "github:NVIDIA/Megatron-LM", "table": "t", "model": "LLAMA3_70B", "hardware": "DGX-H100", "n_gpus": "64",
    "tp": "4", "pp": "8", "vpp": "5", "seq": "8192", "micro_batch": "1", "global_batch": "128", "precision": "FP8",
    "metric": "throughput", "value": "1621", "unit": "tokens/s/GPU",
}  # fmt: skip


def made(**fields: str) -> dict[str, str]:
    """A row with all columns; those not given are usual ones, or empty."""
    return {name: fields.get(name, USUAL.get(name, "")) for name in COLUMNS.split(",")}


def table(*rows: dict[str, str]) -> str:
    """Rows as a CSV table."""
    quoted = [",".join(f'"{value}"' for value in row.values()) for row in rows]
    return "\n".join((COLUMNS, *quoted)) + "\n"
