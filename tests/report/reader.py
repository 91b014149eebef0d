"""A reader of pages: fails where tags do not close in order, and hands out what a page says."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "line", "circle", "path", "br", "rect", "stop", "image", "input", "link"}


class Reader(HTMLParser):
    """text: what is said, in order.  attributes: (tag, name, value).  sections: text by the id of its section."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.sections: dict[str, list[str]] = {}
        self._section = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag == "section":
            self._section = dict(attrs)["id"] or ""
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip() and not {"style", "script", "title"} & set(self.open):
            self.text.append(data.strip())
            if "section" in self.open:
                self.sections.setdefault(self._section, []).append(data.strip())

    @property
    def ids(self) -> list[str]:
        """The ids of the page."""
        return [value for _, name, value in self.attributes if name == "id"]

    @property
    def texts(self) -> list[str]:
        """What the drawings say under a pointer."""
        return [value for _, name, value in self.attributes if name == "data-text"]


def read(text: str) -> Reader:
    """Read a whole page."""
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader
