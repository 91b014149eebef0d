"""Hooks of the documentation site: linked files outside docs/, the changelog, the Python API, systems by group.

MkDocs calls these functions by name (`mkdocs.yml`, hooks).
"""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\((?P<path>\.\./[^)#\s]*)(?P<anchor>#[^)\s]*)?\)")
CHANGES = Path("CHANGELOG.md")
SYSTEMS = Path("docs/systems.md")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".csv": "text", "": "text"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put a page for each system, by group, below the page that lists them."""
    config.nav = _with_systems(config.nav or [])
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file or folder of the repository that a page links to, and the page of the API."""
    linked = {
        target
        for file in files.documentation_pages()
        for found in LINK.finditer(file.content_string)
        if (target := _target(file.src_uri, found["path"])) is not None
    }
    for target in sorted({*linked, CHANGES}):
        files.append(File.generated(config, _page(target), content=_shown(target)))
    files.append(File.generated(config, "api.md", content=api()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links out of docs/ lead to the pages that `on_files` made."""

    def moved(found: re.Match[str]) -> str:
        target = _target(page.file.src_uri, found["path"])
        if target is None:
            return found[0]
        place = posixpath.relpath(_page(target), posixpath.dirname(page.file.src_uri) or ".")
        return f"]({place}{found['anchor'] or ''})"

    return LINK.sub(moved, markdown)


def api() -> str:
    """The page of `import poise`: each name of its public face, documented where it is defined."""
    homes = _constant("_HOMES")
    names = [f"::: poise.{homes[name]}.{name}" for name in _constant("__all__") if name in homes]
    return "# Python API\n\n`import poise as ps`; each name below is `ps.NAME`.\n\n" + "\n\n".join(names) + "\n"


def systems() -> list[str | dict[str, list[dict[str, str]]]]:
    """The list of systems, and by its headings the pages that it links to."""
    found: dict[str, list[dict[str, str]]] = {}
    group = ""
    for line in (ROOT / SYSTEMS).read_text(encoding="utf-8").splitlines():
        group = line.removeprefix("## ") if line.startswith("## ") else group
        for title, page in re.findall(r"\[([^\]]+)\]\((systems/[^)]+\.md)\)", line):
            found.setdefault(group, []).append({title: page})
    return [SYSTEMS.name, *({group: pages} for group, pages in found.items())]


def _with_systems(nav: Any) -> Any:
    """The navigation with the page of all systems, wherever it stands, opened into its groups."""
    if isinstance(nav, list):
        return [_with_systems(each) for each in nav]
    if isinstance(nav, dict):
        return {title: systems() if under == SYSTEMS.name else _with_systems(under) for title, under in nav.items()}
    return nav


def _constant(name: str) -> Any:
    """A literal of poise/__init__.py, read without importing it."""
    for node in ast.parse((ROOT / "poise/__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            return ast.literal_eval(node.value)
    raise LookupError(f"poise/__init__.py has no {name}")


def _target(page: str, link: str) -> Path | None:
    """The file or folder outside docs/ that a link of a page leads to; None for one that stays inside."""
    path = (ROOT / "docs" / posixpath.dirname(page) / link).resolve()
    if path.is_relative_to(ROOT / "docs") or not path.is_relative_to(ROOT) or not path.exists():
        return None
    return path.relative_to(ROOT)


def _page(target: Path) -> str:
    """Where on the site it lies."""
    name = target.as_posix()
    return f"source/{name}/index.md" if (ROOT / target).is_dir() else f"source/{name.removesuffix('.md')}.md"


def _shown(target: Path) -> str:
    """The page of a file or folder."""
    path, title = ROOT / target, f"# `{target.as_posix()}`\n\n"
    if path.is_dir():
        return title + "\n".join(_line(each) for each in sorted(path.iterdir()) if not each.name.startswith("_"))
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return re.sub(r"(?<!!)\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)  # its links lead through the repository
    return f"{title}````{LANGUAGES.get(path.suffix, 'text')}\n{text}````\n"


def _line(path: Path) -> str:
    """A file in the list of its folder, with the first line of its docstring."""
    if path.suffix != ".py":
        return f"- `{path.name}`"
    about = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    return f"- `{path.name}`: {about}" if about else f"- `{path.name}`"
