"""Eight GPUs as one mixed pool, or split into prefill and decode replicas with KV sent over 50 GB/s links."""

import poise as ps

H100 = ps.devices("H100")
LLAMA = ps.models("llama-3.1-8b")
SLO = ps.Slo(ttft_s=0.5, tpot_s=0.012)

workload = ps.workload.poisson(30, duration_s=60, prompt_tokens=4000, output_tokens=200)


def split(prefill: int) -> ps.Cluster:
    """So many prefill replicas; the rest of the eight decode."""
    if not prefill:
        return ps.Cluster((ps.Pool(LLAMA, H100, replicas=8),))
    pools = (ps.Pool(LLAMA, H100, prefill, role="prefill"), ps.Pool(LLAMA, H100, 8 - prefill, role="decode"))
    return ps.Cluster(pools, link_bw=50e9)


print("milliseconds; SLO: TTFT <= 500, TPOT <= 12")
print("prefill  TTFT p50  TTFT p99  TPOT p50  TPOT p99  SLO met")
for prefill in (0, 2, 3, 4, 5):
    told = ps.simulate(split(prefill), workload).metrics(SLO, warmup_s=10)
    figures = (told.ttft_s.p50, told.ttft_s.p99, told.tpot_s.p50, told.tpot_s.p99)
    cells = "".join(f"{figure * 1e3:>10.1f}" for figure in figures)
    print(f"{prefill or 'mixed':>7}{cells}{told.slo_attainment:>9.1%}")
