"""What a dropped trace holds: its columns, which fields they are, and its traffic in one line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from poise.core.errors import TraceError
from poise.report.wording import duration, significant, write
from poise.workload.readers import column_map, read
from poise.workload.readers.format import FIELDS, NEEDED
from poise.workload.summary import summary


def look(path: Path, columns: Mapping[str, str], skip_bad: bool) -> dict[str, Any]:
    """The columns of a trace and, once no needed one is missing, its traffic, or the `error` of its first bad row.

    TraceError for a file that is no trace at all.
    """
    found = column_map(path, columns=columns)
    answer: dict[str, Any] = {
        "format": found.format,
        "columns": sorted(found.columns),
        "fields": found.fields,
        "needed": {name: FIELDS[name] for name in NEEDED},
        "missing": list(found.missing),
        "suggested": found.suggested,
        "summary": "",
        "error": "",
    }
    if not found.missing:
        try:
            workload = read(path, columns=columns, skip_bad=skip_bad)
            answer["summary"] = in_words(summary(workload), workload.source.get("skipped", 0))
        except TraceError as error:
            answer["error"] = str(error).replace(f"{path.parent}/", "")
    return answer


def in_words(facts: Mapping[str, Any], skipped: int) -> str:
    """The traffic in one line."""
    rate = "" if facts["rate"] is None else f", {significant(facts['rate'])} req/s"
    text = f"{facts['requests']:,} requests over {duration(facts['span_s'])}{rate}"
    text += f"; prompts of {facts['prompt_tokens']['mean']:,.0f} tokens in the mean"
    text += f", outputs of {facts['output_tokens']['mean']:,.0f}"
    if "reachable_hit_rate" in facts:
        text += f"; reachable prefix hits {write(facts['reachable_hit_rate'], 'share')}"
    return text + (f"; {skipped:,} bad rows skipped" if skipped else "")
