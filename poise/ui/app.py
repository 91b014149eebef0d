"""The page and what its script asks for."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from pathlib import Path
from shlex import join
from typing import TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.templating import Jinja2Templates

from poise.core.errors import PoiseError, UserError
from poise.policies.find import names
from poise.report.style import TINTS
from poise.ui.beside import beside, results
from poise.ui.folder import PAGES, Folder
from poise.ui.form import Form, check, command, yaml
from poise.ui.guard import POLICY, REPORT, Guard
from poise.ui.jobs import Jobs
from poise.ui.traces import look

T = TypeVar("T")

PAGE = Path(__file__).parent / "page"
TRACE_BYTES = 2 << 30
"""Bytes of a trace that is dropped; larger ones are put into the folder `traces` by hand."""
FORM_BYTES = 64 << 10
STEP_S = 0.2
"""Seconds between two looks for news of the runs."""
MODEL, DEVICES = "llama-3.1-8b", ("H100", "L40S")
PICKED = ("round_robin", "least_requests", "least_tokens", "prefix_cache")
"""What is picked at first; the routers are those of `poise demo`."""


class Look(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question about a trace."""

    trace: str
    columns: dict[str, str] = {}
    skip_bad: bool = False


class StoryOf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question about a request of a run."""

    request: int
    router: str = ""


def app(folder: Folder, token: str, cookie: str, host: str, closing: Callable[[], bool] = lambda: False) -> Starlette:
    """The application. closing: whether the server ends, so that streams of events end too."""
    page = Page(folder, closing)
    routes = [
        Route("/", page.index),
        Route("/ui.css", page.style),
        Route("/ui.js", page.script),
        Route("/events", page.events),
        Route("/api/traces", page.traces),
        Route("/api/traces/{name}", page.drop, methods=["PUT"]),
        Route("/api/look", page.look, methods=["POST"]),
        Route("/api/preview", page.preview, methods=["POST"]),
        Route("/api/runs", page.start, methods=["POST"]),
        Route("/api/runs/{name}/cancel", page.cancel, methods=["POST"]),
        Route("/api/runs/{name}/routers", page.routers),
        Route("/api/runs/{name}/story", page.story, methods=["POST"]),
        Route("/api/beside", page.beside),
        Route("/runs/{name}/{file}", page.file),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, token=token, cookie=cookie, host=host)],
        exception_handlers={PoiseError: _mistake, msgspec.MsgspecError: _mistake},
        lifespan=page.lifespan,
    )


class Page:
    """The answers to the page's script; `jobs` runs the commands."""

    def __init__(self, folder: Folder, closing: Callable[[], bool]) -> None:
        self.folder = folder
        self.jobs = Jobs(folder)
        self._closing = closing
        self._templates = Jinja2Templates(PAGE)

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Runs end with the server."""
        try:
            yield
        finally:
            await self.jobs.stop()

    async def index(self, request: Request) -> Response:
        """The page."""
        from poise.catalogue import device, devices, model, models

        facts = {
            "folder": str(self.folder.root),
            "models": [each.name for each in models()],
            "devices": [each.name for each in devices()],
            "model": model(MODEL).name,
            "picked_devices": [device(name).name for name in DEVICES],
            "routers": names("router"),
            "picked": PICKED,
            "most": TRACE_BYTES,
        }
        return self._templates.TemplateResponse(request, "index.html", facts)

    async def style(self, request: Request) -> Response:
        """The style sheet, with the colours of the reports."""
        return Response(TINTS + (PAGE / "ui.css").read_text(encoding="utf-8"), media_type="text/css")

    async def script(self, request: Request) -> Response:
        """The script."""
        return FileResponse(PAGE / "ui.js", media_type="text/javascript")

    async def events(self, request: Request) -> Response:
        """The runs and their progress, again whenever one of them changes."""
        return StreamingResponse(self._news(), media_type="text/event-stream")

    async def _news(self) -> AsyncIterator[str]:
        seen, sent = -1, ""
        while not self._closing():
            if seen != self.jobs.version:
                seen = self.jobs.version
                text = json.dumps([asdict(run) | {"shell": join(run.command)} for run in self.jobs.runs.values()])
                if text != sent:
                    sent = text
                    yield f"event: runs\ndata: {text}\n\n"
                under_way = {name: asdict(each) for name, each in self.jobs.progress.items()}
                yield f"event: progress\ndata: {json.dumps(under_way)}\n\n"
            await asyncio.sleep(STEP_S)

    async def traces(self, request: Request) -> Response:
        """The names of the traces."""
        return JSONResponse(self.folder.trace_names())

    async def drop(self, request: Request) -> Response:
        """Keep a trace; returns the name that it has from now on."""
        path = self.folder.new_trace(request.path_params["name"])
        if int(request.headers.get("content-length", "0")) > TRACE_BYTES:
            raise HTTPException(413, _too_large(path.name))
        part = path.with_name(f".{path.name}.part")
        try:
            with part.open("xb") as file:
                size = 0
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > TRACE_BYTES:
                        raise HTTPException(413, _too_large(path.name))
                    file.write(chunk)
            part.rename(path)
        finally:
            part.unlink(missing_ok=True)
        return JSONResponse({"name": path.name})

    async def look(self, request: Request) -> Response:
        """The columns and the traffic of a trace."""
        body = await _read(request, Look)
        path = self.folder.trace(body.trace)
        try:
            return JSONResponse(await asyncio.to_thread(look, path, body.columns, body.skip_bad))
        except UserError as error:
            raise UserError(str(error).replace(f"{path.parent}/", "")) from None

    async def preview(self, request: Request) -> Response:
        """The file and the command of a form, and what is still missing."""
        form = await _read(request, Form)
        name = self.folder.new_run(form.name or form.what)
        lacking = ""
        try:
            check(form)
        except UserError as error:
            lacking = str(error)
        return JSONResponse({"name": name, "yaml": yaml(form), "shell": join(command(form, name)), "lacking": lacking})

    async def start(self, request: Request) -> Response:
        """Start a run."""
        return JSONResponse({"name": self.jobs.start(await _read(request, Form))})

    async def cancel(self, request: Request) -> Response:
        """Cancel a run."""
        self.jobs.cancel(request.path_params["name"])
        return JSONResponse({})

    async def routers(self, request: Request) -> Response:
        """The routers of a comparison."""
        name = request.path_params["name"]
        titles = results(name, self.folder.run(name))
        return JSONResponse(list(dict.fromkeys(title.rpartition(", load ")[0] for title in titles)))

    async def story(self, request: Request) -> Response:
        """The story of a request."""
        body, name = await _read(request, StoryOf), request.path_params["name"]
        self.folder.run(name)
        words = ["poise", "story", f"runs/{name}", str(body.request)]
        words += [f"--router={body.router}"] if body.router else []
        return JSONResponse({"shell": join(words), **await self.jobs.answer([*words, "--json", "-"])})

    async def beside(self, request: Request) -> Response:
        """Runs side by side."""
        picked = dict.fromkeys(request.query_params.getlist("run"))
        if len(picked) < 2:
            raise UserError("side by side: pick two or more runs")
        return JSONResponse(beside({name: self.folder.run(name) for name in picked}))

    async def file(self, request: Request) -> Response:
        """A file of a run: its report as a page of an origin of its own, any other as text."""
        name = request.path_params["file"]
        path = self.folder.file(request.path_params["name"], name)
        if name in PAGES:
            return FileResponse(path, media_type="text/html", headers={POLICY: REPORT})
        plain = path.suffix in (".txt", ".yaml", ".yml", ".json", ".sh", ".md", ".csv")
        return FileResponse(path, media_type="text/plain" if plain else "application/octet-stream")


def _too_large(name: str) -> str:
    return f"{name}: is larger than {TRACE_BYTES >> 30} GiB; copy it into the folder traces and open the page again"


async def _read(request: Request, kind: type[T]) -> T:
    """The body of a request as a `kind`; 413 for a large one."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > FORM_BYTES:
            raise HTTPException(413, "too large")
    return msgspec.json.decode(body, type=kind)


async def _mistake(request: Request, error: Exception) -> Response:
    """An error of the user's in one line, as the command line gives it."""
    return JSONResponse({"error": " ".join(str(error).split())}, 400)
