"""The cluster's decisions: events in, actions out, nothing else. The same object is simulated and serves live."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from poise.core.action import Abort, Action, Dispatch, Hold, Move, Refuse, Reject, Route, Wake
from poise.core.chance import Chance
from poise.core.control.attempts import Attempts
from poise.core.control.flight import InFlight
from poise.core.control.gateway_queue import GatewayQueue
from poise.core.control.hedging import Hedging
from poise.core.control.in_flight import InFlightTable
from poise.core.control.lending import Lending
from poise.core.control.peers import SHARED, PeerRequests
from poise.core.control.policy_exchange import exchange, hooked, mover_of, needs_of, policies_of
from poise.core.control.prefix_index import PrefixIndex
from poise.core.control.recovery import Recovering
from poise.core.control.restricted_view import RestrictedView
from poise.core.control.scaling import Scaling
from poise.core.control.state import DRAINING, GONE, SERVING, STARTING, State
from poise.core.errors import PolicyError
from poise.core.event import (
    AdaptersChanged,
    Arrived,
    CacheChanged,
    Cancelled,
    Draining,
    Event,
    Exchanged,
    Failed,
    Finished,
    FirstToken,
    Lent,
    Measured,
    Moved,
    MoveFailed,
    PeerEnded,
    PeerLost,
    PeerSent,
    Prefilled,
    PrefixSent,
    Refused,
    ReplicaJoined,
    ReplicaLeft,
    ReplicaLost,
    ReplicaUpdated,
    Reported,
    Restricted,
    Tick,
)
from poise.core.fast_tuple import made
from poise.core.policy import Admission, Bundle, Mover, Order, Predictor
from poise.core.request import RequestView
from poise.core.spec import Belief, PoolSpec, ReplicaSpec

Actions = Sequence[Action]
Maker = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""From policies as `Exchanged` names them, by slot, to the policies themselves."""


class Control:
    """Admits, routes, holds, rejects, moves and hedges requests on belief, and decides the size of pools.

    policies: those of the slots in `slot.CONTROL` are used; deep-copied, so that two controls never share
    their state.  A router that can `move` requests is its own mover where none is given; several admissions narrow one
    another's choice.
    replicas, pools: their properties, known beforehand (only a scaler uses pools).  tries: times that a request is
    sent before it is refused, where engines refuse it in a way that another may not; one whose replicas cannot
    be reached is held, and they are tried again.
    resume: after a loss, continue after the tokens that the client already has instead of starting again; a recovery,
    if there is one, must say so too.
    index: the true prefix index, where `belief.prefix` is `oracle`.
    """

    def __init__(
        self,
        policies: Bundle,
        replicas: Sequence[ReplicaSpec],
        *,
        pools: Sequence[PoolSpec] = (),
        belief: Belief | None = None,
        seed: int = 0,
        tries: int = 1,
        resume: bool = True,
        index: PrefixIndex | None = None,
    ) -> None:
        self.own: dict[str, Any] = policies.copies("control")
        """The policies by slot, without the wrappers that observe them."""
        self.maker: Maker | None = None
        """Makes the policies that `Exchanged` names; None where policies cannot be exchanged."""
        own = self.own
        hedge, scaler, lender, recovery = own["hedge"], own["scaler"], own["lender"], own["recovery"]
        self.state = State(replicas, belief or Belief(), needs_of(policies_of(own)), index)
        self.seed = seed
        self.chance = Chance(seed)
        self.tries = tries
        self.tried: dict[int, Attempts] = {}
        self.resume = resume and (recovery is None or recovery.resumes)
        self.held = GatewayQueue(self.grouping(own["router"]), own["order"], self.state)
        self.in_flight = InFlightTable(self.state, False)
        self.flights = self.in_flight.flights
        self.peers = PeerRequests(self.state)
        self.outbox: list[PeerSent | PeerEnded] | None = None if self.state.belief.share_s is None else []
        """What other gateways are to be sent, as events with own ids and no gateway; None where nothing is shared."""
        self.settle()
        self.hedges = None if hedge is None else Hedging(hedge, self)
        self.scaling: Scaling | None = None
        if scaler is not None:
            self.scaling = Scaling(scaler, own["forecast"], pools, self.state, self.held, self.chance)
        self.lending = None if lender is None else Lending(lender, self.state)
        self.recovering = None if recovery is None else Recovering(recovery, self.state, self._enter)

    def settle(self) -> None:
        """Use the policies in `own` from now on."""
        own = self.own
        policies = policies_of(own)
        self.router: Any = own["router"]  # its answers are looked at, whatever its types promise
        self.mover: Mover | None = mover_of(own)
        self.order: Order | None = own["order"]
        self.admission: tuple[Admission, ...] = own["admission"]
        self.predictor: Predictor | None = own["predictor"]
        self.in_flight.track("flights" in needs_of(policies))
        moves = self.mover is not None or own["recovery"] is not None  # what moves requests sees those that it may move
        self.peers.settle(own, self.in_flight.tracks and not moves)
        self._observers = [policy.observe for policy in hooked(own, "observe")]
        shared = hooked(own, "observe", SHARED)  # `peers` calls these with the ends of other gateways' requests
        self._peer_observers = [
            policy.observe for policy in hooked(own, "observe") if not any(policy is each for each in shared)
        ]
        self._enters = [policy.enter for policy in hooked(own, "enter")]
        self._joins = [policy.joined for policy in hooked(own, "joined")]
        self._takes = [policy.taken for policy in hooked(own, "taken")]
        self._ends = [policy.ended for policy in hooked(own, "ended")]
        self._eager = getattr(self.mover, "eager", False)
        self.observes = bool(self._observers) or self.in_flight.tracks or own["hedge"] is not None
        pairs = own["scaler"] is not None or bool({replica.role for replica in self.state.replicas} - {"mixed"})
        gated = bool(self._enters or self._joins or self._takes or self._ends or self.admission)
        shares = self.outbox is not None
        self.plain = not (self.observes or gated or pairs or self._eager or shares or self.predictor is not None)
        """Whether only the router sees a request's arrival and end, and one replica serves all of it."""
        self.chance.ranks = self.state.ranks

    def grouping(self, router: Any) -> Callable[[RequestView], Hashable]:
        """The group key of waiting requests under a router."""
        group: Callable[[RequestView], Hashable] = getattr(router, "group", self._group)
        return group

    def handle(self, event: Event) -> Actions:
        """The actions for `event`."""
        self.state.now = event.at
        kind = type(event)
        for observe in self._peer_observers if kind is PeerSent or kind is PeerEnded else self._observers:
            observe(event)
        handler = _HANDLERS[kind]
        return handler(self, event) if self.hedges is None else self.hedges.handle(event, handler)

    def arrive(self, request: RequestView, at: int) -> int | Actions:
        """The decision on a request that arrives for the first time; a number: send it to that replica, no more.

        As `handle(Arrived(at, request, 0))`, without event and action where only the router is called.
        """
        if not self.plain or self.tried or self.held.queues or request.home >= 0:
            return self.handle(made(Arrived, (at, request, 0)))
        state = self.state
        state.now = at
        able = state.able(request)
        if not able:
            return self._sent_or_held(request, self._unless_hopeless(request))
        self.chance.key = request.id
        decision = self.router.route(request, state, self.chance)
        if type(decision) is not Route:
            return self._sent_or_held(request, self._kept(request, decision))
        replica, _, fallback = decision
        if not (0 <= replica < len(able) == len(state.status)) and replica not in able:  # mostly all are able
            raise self._unable(request, replica, able)
        self.flights[request.id] = InFlight(request, replica, replica, fallback, at)
        state.sent(at, request, replica)
        return replica

    def finish(self, request: int, output_tokens: int, at: int) -> Actions:
        """The actions for a finished request: `handle(Finished(...))`, without the event where no policy reads it."""
        if not self.plain:
            return self.handle(made(Finished, (at, request, output_tokens)))
        self.state.now = at
        self.in_flight.end(request)
        if self.tried:
            self.tried.pop(request, None)
        return self.route_held() if self.held.queues else ()

    def clone(self) -> Control:
        """An independent copy with the same state, for shadow mode and search."""
        return copy.deepcopy(self)

    def served(self, request: RequestView) -> bool:
        """Whether some replica, and a decode partner where it needs one, can take a request now."""
        state = self.state
        able = state.able(request)
        if not able or any(state.replicas[replica].role != "prefill" for replica in able):
            return bool(able)
        return bool(state.partners(request))

    # Requests --------------------------------------------------------------------------------------------------------

    def _arrived(self, event: Arrived) -> Actions:
        request = event.request
        if self.predictor is not None:
            self.chance.key = request.id
            request = request._replace(predicted_tokens=self.predictor.predict(request, self.chance))
        for enter in self._enters:
            answer = enter(request, self.state)
            if answer is not None:
                return (Refuse(request.id, answer.reason, answer.retry_after),)
        for joined in self._joins:
            joined(request)
        if self.held and self.held.join_queue(request):
            self._share(request)
            return self.route_held() if self.order is not None and self.held.leads(request) else ()
        actions = self._sent_or_held(request, self._decide(request))
        return (*actions, *self._rebalance()) if self._eager else actions

    def _sent_or_held(self, request: RequestView, action: Action | None) -> Actions:
        """The decision on a request that has just arrived; one that cannot be sent yet is queued."""
        if action is None or type(action) is Wake:
            self.held.add(request)
            self._share(request)
        return () if action is None else (action,)

    def _decide(self, request: RequestView) -> Action | None:
        """Call the router; None (or a Wake) when the request is to be held."""
        state = self.state
        able = state.able(request)
        if not able:
            return self._unless_hopeless(request)
        self.chance.key = request.id
        if self.admission or self.tried or request.home >= 0:
            decision, able = self._narrowed(request, able)
        else:
            decision = self.router.route(request, state, self.chance)
        if type(decision) is Route:
            replica = decision.replica
            if replica not in able:
                raise self._unable(request, replica, able)
            decode = replica
            if state.replicas[replica].role == "prefill":
                chosen = self._decode(request, decision)
                if chosen is None:
                    return self._unless_hopeless(request)
                decode = chosen
            for taken in self._takes:
                taken(request, replica, state)
            self.in_flight.send(InFlight(request, replica, decode, decision.fallback, state.now))
            self._share(request, replica, decode)
            return made(Dispatch, (request.id, replica, decode, self.resume))
        return self._kept(request, decision)

    def _unable(self, request: RequestView, replica: int, able: Sequence[int]) -> PolicyError:
        """The error of a route to a replica that cannot serve the request."""
        return PolicyError(
            f"{self._name} routed request {request.id} to replica {replica}, which is not among the able {able}"
        )

    def _kept(self, request: RequestView, decision: Any) -> Action | None:
        """The actions for an answer that sends a request nowhere; None (or a Wake) when it is to be held."""
        if type(decision) is Hold:
            return Wake(decision.wake_at) if decision.wake_at > self.state.now else None
        if type(decision) is Reject:
            return self._turn_away(request, decision.reason, decision.retry_after)
        raise PolicyError(f"{self._name} answered {decision!r}; it must be a Route, a Hold or a Reject")

    def _unless_hopeless(self, request: RequestView) -> Refuse | None:
        """Queue the request if no replica can take it now; refuse it if none ever can."""
        reason = self.state.hopeless(request)
        return self._turn_away(request, reason) if reason else None

    def _turn_away(self, request: RequestView, reason: str, retry_after: int = 0) -> Refuse:
        """Refuse a queued request."""
        self._end(request)
        return Refuse(request.id, reason, retry_after)

    def _end(self, request: RequestView, output_tokens: int = 0) -> None:
        """A request has left, after so many tokens of output."""
        self.tried.pop(request.id, None)
        for ended in self._ends:
            ended(request)
        if self.outbox is not None:
            self.outbox.append(made(PeerEnded, (self.state.now, -1, request.id, output_tokens)))

    def _put_back(self, requests: Sequence[RequestView]) -> None:
        """A request that was sent waits again."""
        for request in requests:
            for joined in self._joins:
                joined(request)
            self._share(request)
        self.held.put_back(requests)

    def _narrowed(self, request: RequestView, able: Sequence[int]) -> tuple[Any, Sequence[int]]:
        """The router's answer among some of the able replicas, and who they are."""
        whole = able
        tried = self.tried.get(request.id)
        if tried is not None:
            if tried.until > self.state.now:
                return Hold("no replica could be reached", tried.until), able
            able = tried.left(able)
            if not able:  # the remaining ones are lost
                return Hold("all replicas were tried", tried.wait(self.state.now)), able
        if request.home in able:
            able = (request.home,)
        for policy in self.admission:
            if not able:
                break
            answer = policy.admit(request, able, self.state)
            if type(answer) is Hold or type(answer) is Reject:
                return answer, able
            able = answer  # type: ignore[assignment]
        if not able:
            return Hold("no replica may be sent more now"), able
        state: Any = self.state
        if tuple(able) != whole:  # mostly all may be sent more, and the state itself is the quicker view
            state = RestrictedView(self.state, able)
        return self.router.route(request, state, self.chance), able

    def _decode(self, request: RequestView, route: Route) -> int | None:
        """The decode half of a P/D pair: the router's own choice, or the router called again for that stage."""
        able = self.state.partners(request)
        if not able:
            return None
        chosen = route.decode
        if chosen is None:
            decision = self.router.route(request, RestrictedView(self.state, able, "decode"), self.chance)
            if type(decision) is not Route:
                return None
            chosen = decision.replica
        if chosen not in able:
            raise PolicyError(
                f"{self._name} paired request {request.id} with replica {chosen}, not among the able {able}"
            )
        return chosen

    def _finished(self, event: Finished) -> Actions:
        request = self.in_flight.end(event.request).request
        if self.tried or self._ends or self.outbox is not None:
            self._end(request, event.output_tokens)
        if self.predictor is not None:
            self.predictor.learn(request, event.output_tokens)
        return self.route_held() if self.held.queues else ()

    def _failed(self, event: Failed) -> Actions:
        flight = self.in_flight.end(event.request)
        self._end(flight.request, event.output_tokens)
        aborts = [Abort(event.request, place) for place in sorted(flight.places - {event.replica})]
        return (*aborts, *self.route_held())

    def _prefilled(self, event: Prefilled) -> Actions:
        self.in_flight.prefilled(event.request)
        return self.route_held() if self.held.queues else ()

    def _cancelled(self, event: Cancelled) -> Actions:
        if event.request not in self.flights:
            waited = self.held.remove(event.request)
            if waited is not None:
                self._end(waited)
            return self.route_held() if self.held.queues else ()
        flight = self.in_flight.end(event.request)
        self._end(flight.request, event.output_tokens)
        aborts = [Abort(event.request, replica) for replica in sorted(flight.places)]
        return (*aborts, *self.route_held())

    def _refused(self, event: Refused) -> Actions:
        flight = self.in_flight.end(event.request)
        tried = self.note_refused(event) if event.again else None
        while flight.fallback:
            replica, flight.fallback = flight.fallback[0], flight.fallback[1:]
            if replica in self.state.able(flight.request):
                decode = replica if flight.decode == flight.replica else flight.decode
                return (self._send_again(flight, replica, decode),)
        if tried is not None and tried.sent < self.tries and self._may_go_on(flight.request, tried):
            self._put_back([flight.request])
            return self.route_held()
        return (self._turn_away(flight.request, event.reason), *self.route_held())

    def note_refused(self, event: Refused) -> Attempts:
        """Record that a replica refused a request; returns the request's attempts."""
        tried = self.tried.get(event.request)
        if tried is None:
            tried = self.tried[event.request] = Attempts()
        tried.refused(event)
        return tried

    def _may_go_on(self, request: RequestView, tried: Attempts) -> bool:
        """Whether a refused request has another replica to go to, or one to wait for."""
        able = self.state.able(request)
        if not able or tried.left(able):
            return True
        if tried.unreached:
            tried.wait(self.state.now)
            return True
        return False

    def _send_again(self, flight: InFlight, replica: int, decode: int) -> Dispatch:
        request = flight.request
        self.in_flight.send(InFlight(request, replica, decode, flight.fallback, self.state.now))
        self._share(request, replica, decode)
        return Dispatch(request.id, replica, decode, self.resume)

    def route_held(self) -> Actions:
        """Decide the held requests again, in order, until the first of each group is held again."""
        actions: list[Action] = []

        def decide(request: RequestView) -> bool:
            action = self._decide(request)
            if action is not None:
                actions.append(action)
            return not (action is None or type(action) is Wake)

        self.held.ask(decide)
        return actions

    # Other gateways --------------------------------------------------------------------------------------------------

    def _share(self, request: RequestView, replica: int = -1, decode: int = -1) -> None:
        """Where a request is now, for other gateways; by default it waits."""
        if self.outbox is not None:
            self.outbox.append(made(PeerSent, (self.state.now, -1, request, replica, decode)))

    def _peer_sent(self, event: PeerSent) -> Actions:
        self.peers.sent(event)
        return ()

    def _peer_ended(self, event: PeerEnded) -> Actions:
        return self.route_held() if self.peers.ended(event) and self.held.queues else ()

    def _peer_lost(self, event: PeerLost) -> Actions:
        self.peers.lost(event.gateway)
        return self.route_held() if self.held.queues else ()

    def _prefix_sent(self, event: PrefixSent) -> Actions:
        if self.state.sent_prefixes is not None:
            self.state.sent_prefixes.send(event.replica, event.ids, event.ends)
        return ()

    # Moves -----------------------------------------------------------------------------------------------------------

    def _rebalance(self) -> list[Move]:
        """The moves that the mover wants now, recorded as in flight."""
        assert self.mover is not None
        moves = list(self.mover.move(self.state))
        self._enter(self.mover, moves)
        return moves

    def _enter(self, policy: object, moves: Sequence[Move]) -> None:
        """Record the moves that a policy wants."""
        for move in moves:
            flight = self.flights.get(move.request)
            self._check(type(policy).__name__, move, flight)
            assert flight is not None
            self.in_flight.move(flight, move.target)

    def _check(self, who: str, move: Move, flight: InFlight | None) -> None:
        """Check that a move is possible, as far as the control side knows."""
        state = self.state
        if flight is None or flight.place != move.source:
            place = "in no replica" if flight is None else f"at replica {flight.place}"
            raise PolicyError(f"{who} asks for {move}, but the request is {place}")
        if flight.target >= 0:
            raise PolicyError(f"{who} asks for {move}, but the request is moving to replica {flight.target} already")
        peers = state.peers(flight.request, move.source)
        if move.target not in peers:
            raise PolicyError(f"{who} asks for {move}, but only the peers {peers} may take it over")

    def _moved(self, event: Moved) -> Actions:
        self.in_flight.moved(self.flights[event.request])
        return self.route_held() if self.held.queues else ()

    def _stayed(self, event: MoveFailed) -> Actions:
        self.in_flight.stayed(self.flights[event.request])
        return self.route_held() if self.held.queues else ()

    def _lent(self, event: Lent) -> Actions:
        self.state.lent(event.debtor, event.creditor, event.blocks)
        return ()

    # Replicas --------------------------------------------------------------------------------------------------------

    def _reported(self, event: Reported) -> Actions:
        self.state.report(event.measured_at, event.columns, event.cached)
        return self._look_again()

    def _measured(self, event: Measured) -> Actions:
        self.state.measure(event.measured_at, event.replica, event.values)
        return self._look_again()

    def _cache_changed(self, event: CacheChanged) -> Actions:
        self.state.cache_changed(event.replica, event.entered, event.left, event.cleared)
        return ()

    def _adapters_changed(self, event: AdaptersChanged) -> Actions:
        self.state.adapters_changed(event.replica, event.slots, event.running, event.waiting)
        return ()

    def _lost(self, event: ReplicaLost) -> Actions:
        """Send what ran on the lost replica elsewhere, oldest first, ahead of what is held."""
        victims = [
            flight
            for flight in self.flights.values()
            if event.replica == flight.decode or (event.replica == flight.replica and not flight.prefilled)
        ]
        self._go(event.replica)
        for flight in self.flights.values():
            if flight.target == event.replica:
                flight.target = -1
        actions: list[Action] = []
        for flight in sorted(victims, key=lambda flight: flight.request.id):
            self.in_flight.end(flight.request.id)
            for place in sorted({flight.replica, flight.decode, flight.target} - {event.replica, -1}):
                actions.append(Abort(flight.request.id, place))
        self._put_back([flight.request for flight in victims])
        return (*actions, *self.route_held())

    def _go(self, replica: int) -> None:
        self.state.set_status(replica, GONE)
        self.peers.replica_gone(replica)
        if self.scaling is not None or self.state.replicas[replica].returns:
            self.state.status[replica] = STARTING  # another may come in its place

    def _joined(self, event: ReplicaJoined) -> Actions:
        self.state.set_status(event.replica, SERVING)
        for tried in self.tried.values():
            tried.until = 0
        return self.route_held()

    def _known(self, event: ReplicaUpdated) -> Actions:
        self.state.know(event.replica, event.spec)
        return ()

    def _draining(self, event: Draining) -> Actions:
        self.state.set_status(event.replica, DRAINING)
        return () if self.recovering is None else self.recovering.drains(event.replica, event.gone_at)

    def _left(self, event: ReplicaLeft) -> Actions:
        self._go(event.replica)
        return self.route_held() if self.held.queues else ()

    def _first_token(self, event: FirstToken) -> Actions:
        flight = self.flights[event.request]
        flight.first_token_at = event.at
        actions = self.route_held() if self.held and self.in_flight.tracks else ()  # a prefill slot may be free
        return actions if self.recovering is None else (*actions, *self.recovering.moves(flight.place))

    def _confined(self, event: Restricted) -> Actions:
        """For an admission alone, which observes it."""
        return ()

    def _exchanged(self, event: Exchanged) -> Actions:
        if self.maker is None:
            raise PolicyError(f"{', '.join(event.policies)} cannot be exchanged here, for nothing makes policies")
        exchange(self, self.maker(event.policies))
        return self._look_again()

    def _tick(self, event: Tick) -> Actions:
        actions = self._look_again()
        return actions if self.scaling is None else (*actions, *self.scaling.changes())

    def _look_again(self) -> Actions:
        """New information: decide the held requests again, then call mover, lender and recovery."""
        actions = self.route_held() if self.held else ()
        if self.recovering is not None and self.recovering.going:
            actions = (*actions, *self.recovering.all_moves())
        if self.lending is not None:
            actions = (*actions, *self.lending.loans())
        return actions if self.mover is None else (*actions, *self._rebalance())

    @property
    def _name(self) -> str:
        return type(self.router).__name__

    def _group(self, request: RequestView) -> Hashable:
        """A request that waits for one replica alone must not block the others of its model."""
        key = self.state.model_and_tenant(request)
        return key if request.home < 0 else (*key, request.home)


_HANDLERS: dict[type, Callable[[Control, Any], Actions]] = {
    Arrived: Control._arrived,
    Restricted: Control._confined,
    FirstToken: Control._first_token,
    Prefilled: Control._prefilled,
    Finished: Control._finished,
    Cancelled: Control._cancelled,
    Refused: Control._refused,
    Failed: Control._failed,
    Moved: Control._moved,
    MoveFailed: Control._stayed,
    Lent: Control._lent,
    Reported: Control._reported,
    Measured: Control._measured,
    CacheChanged: Control._cache_changed,
    AdaptersChanged: Control._adapters_changed,
    ReplicaLost: Control._lost,
    ReplicaJoined: Control._joined,
    ReplicaUpdated: Control._known,
    Draining: Control._draining,
    ReplicaLeft: Control._left,
    PeerSent: Control._peer_sent,
    PeerEnded: Control._peer_ended,
    PeerLost: Control._peer_lost,
    PrefixSent: Control._prefix_sent,
    Tick: Control._tick,
    Exchanged: Control._exchanged,
}
