"""The rules of a layer of experts: tokens go to the ranks of their experts, through two products, and back.

Kinds, in their order: `dense` is any operator before; `split` cuts a rank's tokens into chunks; `dispatch` is the
all-to-all over nodes, and `token_gather` gives all ranks of a node, each of which has a part of every expert, the
tokens of all of them; `up` and `down` are the experts' products; `token_scatter` sums the ranks' parts and gives back
each rank's tokens, `combine` brings them home, and `join` puts chunks together. `route` cuts tokens by the rank to
which they go, for messages in place of a collective; `slice` and `unslice` cut gradients. `arg` of products and
collectives is (layer, chunk, chunks).

Contents are ("tokens", layer, rank, chunk, chunks), those of a rank; "hidden" and "out" likewise, behind up and down.
Part (n, N) of them are those that go to experts of node n of N. A chunk of "out" is one of tokens, or of columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from poise.program.content import Atom, Content, summed
from poise.program.kinds import Contents, Fault, joint_rule, rule
from poise.program.program import Program
from poise.program.task import Task


@rule("dense")
def dense(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """Any other operator of the model: a rank's tokens, one layer further."""
    _, layer, rank = _one(reads[0], "tokens", 3)
    return [Content.of("tokens", int(str(layer)) + 1, rank)]


@rule("split")
def split(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """A rank's tokens as chunks."""
    atom = _one(reads[0], "tokens", 3)
    return [Content.of(*atom, chunk, len(task.writes)) for chunk in range(len(task.writes))]


@rule("join")
def join(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """All chunks of a rank's output, in order: what the next layer reads."""
    wanted = [("out", *_one(reads[0], "out", 5)[1:3], chunk, len(reads)) for chunk in range(len(reads))]
    if [each.only for each in reads] != wanted or wanted[0][2] != task.rank:
        raise Fault(f"joins {[each.only for each in reads]}; it needs all {len(reads)} chunks of its rank, in order")
    return [Content.of("tokens", int(str(wanted[0][1])) + 1, task.rank)]


@rule("route")
def route(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """Tokens by the rank to which they go, one value for each."""
    _one(reads[0], "tokens", 5)
    return [reads[0]._replace(part=(target, len(task.writes))) for target in range(len(task.writes))]


@rule("slice")
def sliced(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """A gradient in slices, which may be of unequal size."""
    if reads[0].part != (0, 1):
        raise Fault("slices a part of a gradient; slice the whole")
    return [reads[0]._replace(part=(number, len(task.writes))) for number in range(len(task.writes))]


@rule("unslice")
def unsliced(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """All slices of one gradient, in order, as a whole."""
    if [each.part for each in reads] != [(number, len(reads)) for number in range(len(reads))]:
        raise Fault(f"puts slices {[each.part[0] for each in reads]} together; it needs all {len(reads)}, in order")
    if any(each.atoms != reads[0].atoms for each in reads):
        raise Fault("puts slices of unlike sums together; sum each of them over all ranks")
    return [reads[0]._replace(part=(0, 1))]


@joint_rule("dispatch")
def dispatch(program: Program, tasks: list[Task], reads: list[Contents]) -> Sequence[Sequence[Content]]:
    """Every member gets the tokens of all members that go to its experts."""
    own = [_one(each[0], "tokens", 5) for each in reads]
    if any(atom[2] != task.rank or atom[3:] != tuple(task.arg[1:]) for atom, task in zip(own, tasks, strict=True)):
        raise Fault(f"sends {own}; each member sends its own tokens, all the same chunk of them")
    total = summed(each[0] for each in reads)
    return [[total._replace(part=(number, len(tasks)))] for number in range(len(tasks))]


@joint_rule("token_gather")
def token_gather(program: Program, tasks: list[Task], reads: list[Contents]) -> Sequence[Sequence[Content]]:
    """Every member gets the tokens of all members."""
    if len({each[0].part for each in reads}) > 1:
        raise Fault("gathers tokens of experts of several nodes; its members are the ranks of one")
    total = summed(each[0] for each in reads)
    return [[total] for _ in tasks]


@rule("up")
def up(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """The experts' first product, of tokens that are there."""
    return [Content({("hidden", *_named(atom, "tokens")): 1 for atom in reads[0].atoms}, reads[0].part)]


@rule("down")
def down(program: Program, task: Task, reads: Contents) -> Sequence[Content]:
    """The second, of a chunk of the tokens, or of a chunk of the columns if all tokens are there."""
    if len({each.part for each in reads}) > 1:
        raise Fault("takes tokens of experts of several nodes")
    found: dict[Atom, set[tuple[int, int]]] = defaultdict(set)
    for atom in summed(reads).atoms:
        layer, rank, chunk, chunks = _named(atom, "hidden")
        found[layer, rank].add((int(str(chunk)), int(str(chunks))))
    wanted = tuple(task.arg[1:])
    for each in found.values():
        whole = each == {(chunk, len(each)) for chunk in range(len(each))}
        if each != {wanted} and not whole:
            raise Fault(f"takes chunks {sorted(each)} of a rank's tokens; it needs chunk {wanted}, or all of them")
    return [Content({("out", *source, *wanted): 1 for source in found}, reads[0].part)]


@joint_rule("token_scatter")
def token_scatter(program: Program, tasks: list[Task], reads: list[Contents]) -> Sequence[Sequence[Content]]:
    """Every member gets the sum over all members' parts of the experts, of the tokens that it has brought."""
    if any(each[0] != reads[0][0] for each in reads):
        raise Fault("sums outputs of unlike tokens; all members compute the same")
    atoms, local = reads[0][0].atoms, len(tasks)
    own = [{atom: 1 for atom in atoms if int(str(atom[2])) % local == task.rank % local} for task in tasks]
    return [[Content(each, reads[0][0].part)] for each in own]


@joint_rule("combine")
def combine(program: Program, tasks: list[Task], reads: list[Contents]) -> Sequence[Sequence[Content]]:
    """Every member gets the outputs of its tokens, from the experts of all members."""
    if [each[0].part for each in reads] != [(number, len(tasks)) for number in range(len(tasks))]:
        raise Fault(f"combines parts {[each[0].part for each in reads]}; each member brings that of its experts")
    wanted = [("out", tasks[0].arg[0], task.rank, *task.arg[1:]) for task in tasks]
    if any(dict(each[0].atoms) != dict.fromkeys(wanted, 1) for each in reads):
        raise Fault(f"combines {[sorted(each[0].atoms, key=str) for each in reads]}; it needs {wanted} of each member")
    return [[Content.of(*atom)] for atom in wanted]


def _one(content: Content, name: str, length: int) -> Atom:
    """The only atom of a content; Fault where it is of another name or form."""
    atom = content.only
    if atom is None or atom[0] != name or len(atom) != length or content.part != (0, 1):
        raise Fault(f"takes {list(content.atoms)}, part {content.part}; it needs {name} of one rank, whole")
    return atom


def _named(atom: Atom, name: str) -> Atom:
    """What follows the name of an atom; Fault where it is another."""
    if atom[0] != name or len(atom) != 5:
        raise Fault(f"takes {atom}; it needs {name}")
    return atom[1:]
