"""Nodes of one crawl that meet in Redis over a bad network: membership, leases of shards, takeover, the end.

Nodes are the product's `ClusterNode` with `run_until_done`; the processes of their shards have the product's frontier
in Redis and files, and its inboxes, and crawl a fixed site. Nodes are killed, paused, cut off from Redis, machines lose
power; the processes of a killed node live on for a moment. Checked: a crawl that ends as finished has visited every
page; each change of a shard was made by one process; a page is fetched once, unless something was disturbed; a domain
is not offered before its time, whoever owns its shard; and the crawl does end.
"""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from tests.simulation import redis_server, seams
from tests.simulation.faults import FaultInjector, FaultRates, Service, pause
from tests.simulation.frontier_protocol import HOLD, LIMITS, Site
from tests.simulation.network import Network
from tests.simulation.world import Machine, Process, World
from webmill.crawl.cluster.cluster_state import ClusterState, NodeInfo
from webmill.crawl.cluster.node import ClusterNode, SeedList
from webmill.crawl.cluster.redis_host_schedule import shared_clock
from webmill.crawl.cluster.redis_inbox import RedisInbox
from webmill.crawl.cluster.redis_scripts import ClusterScripts
from webmill.crawl.frontier.base import (
    ClaimRequest,
    DomainTurn,
    FrontierUpdate,
    LastVisit,
    TurnOutcomes,
    VisitDone,
    domain_of,
)
from webmill.crawl.frontier.redis.frontier import RedisFrontier
from webmill.crawl.frontier.redis.server import RedisServer
from webmill.crawl.options import CrawlLimits
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.scheduler.coordinator import run_until_done
from webmill.errors import Conflict, Misconfigured, Unavailable
from webmill.model import Link

NAME, LIFE, TIMEOUT, LEASE = "sim", 30.0, 5.0, 600.0


class ShardChild:
    """The process of a shard as its node sees it (`ShardProcess`)."""

    deadline = None

    def __init__(self, model: ClusterModel, node: Process, shard: int) -> None:
        self.to_child: list[Any] = []
        self.to_parent: list[Any] = []
        self.is_hung_up = False
        self._began = model.world.now
        self._world = model.world
        name = f"{node.name}/shard-{shard}"
        self.process = model.world.start(node.machine, name, lambda: ShardLoop(model, self, shard).run())
        model.children.append((node, self))

    def waitables(self) -> list[Any]:
        return []

    def is_alive(self) -> bool:
        return self.process.is_alive

    @property
    def has_ended(self) -> bool:
        return not self.process.is_alive and not self.to_parent

    @property
    def lived(self) -> float:
        return self._world.now - self._began

    def send(self, message: Any) -> None:
        self.to_child.append(message)

    def receive(self) -> list[Any]:
        messages, self.to_parent = self.to_parent, []
        return messages

    def hang_up(self) -> None:
        self.is_hung_up = True

    def kill(self) -> None:
        self.process.kill()

    def reap(self, grace: float) -> None:
        self.hang_up()
        assert seams.current
        end = self._world.now + grace
        while self.process.is_alive and self._world.now < end:
            seams.current.sleep(0.1)
        self.process.kill()


class ShardLoop:
    """Crawls the pages of one shard, in the order of the product's phases (`ShardStore`)."""

    def __init__(self, model: ClusterModel, pipe: ShardChild, shard: int) -> None:
        self.model, self.world, self.pipe, self.shard = model, model.world, pipe, shard
        self.progress = CrawlProgress(shard=shard)
        self.turns: dict[int, DomainTurn] = {}
        self.is_stopping = False
        self.probe = 0

    def run(self) -> None:
        assert seams.current
        self.me = seams.current
        try:
            self._open()
            while not (self.is_stopping or self.pipe.is_hung_up):
                self._listen()
                self._work()
                self.pipe.to_parent.append(("seen", self._copy()))
                pause(self.world, 3.0)
            self.frontier.close()
        except (Conflict, Misconfigured, Unavailable) as error:
            self.world.note(self.me.name, f"lost the shard: {type(error).__name__}")
            self.world.counts["shards lost"] += 1
            self._excuse()
            self.pipe.to_parent.append(("lost", str(error)))

    def _open(self) -> None:
        self.server = RedisServer(redis_server.URL, timeout=TIMEOUT)
        name = f"shard-{self.shard:02d}"
        folder = self.me.machine.disk.root / name
        self.frontier = RedisFrontier(redis_server.URL, folder, prefix=f"{NAME}:{name}", limits=LIMITS, timeout=TIMEOUT)
        self.clock = shared_clock(ClusterScripts(self.server, NAME))

    def _listen(self) -> None:
        messages, self.pipe.to_child = self.pipe.to_child, []
        for kind, *values in messages:
            if kind == "stop":
                self.is_stopping = True
            elif kind == "probe":
                self.probe = max(self.probe, values[0])

    def _work(self) -> None:
        """Visit what is in hand, settle it with the links that have come, and claim more."""
        probe = self.probe  # answered with what is found after it
        links: list[Link] = []
        settled = [self._visit(turn, links) for turn in self.turns.values()]
        inbox = self._inbox(self.shard)
        messages = self._until_answered(lambda: inbox.read(10))
        links += [Link(message.body.decode()) for message in messages]
        added = 0
        if links or settled:
            added = self._commit(FrontierUpdate(links=links, settled=settled))
        if messages:
            self._until_answered(lambda: inbox.delete(messages))
        self._claim()
        self.progress.work += len(settled) + len(self.turns) + added
        self.progress.next_due = self._until_answered(self.frontier.next_turn)
        is_empty = self._until_answered(inbox.is_empty)
        self.progress.is_idle = not self.turns and self.progress.next_due is None and is_empty
        self.progress.has_due_work = not self.progress.is_idle
        self.progress.probe = probe

    def _visit(self, turn: DomainTurn, links: list[Link]) -> TurnOutcomes:
        outcomes = []
        for item in turn.items:
            pause(self.world, 0.3)
            self.model.fetched(item.url)
            outcomes.append(VisitDone(LastVisit(url=item.url, time=self.clock(), status=200)))
            for url in self.model.site.links[item.url]:
                shard = self.model.shard_of(url)
                if shard == self.shard:
                    links.append(Link(url))
                else:
                    inbox = self._inbox(shard)
                    self._until_answered(lambda inbox=inbox, url=url: inbox.publish([url.encode()]))  # type: ignore[misc]
        return TurnOutcomes(turn.token, outcomes, next=self.clock() + HOLD)

    def _commit(self, update: FrontierUpdate) -> int:
        """Commit until it is known to have happened, as the product does."""
        for one in update.settled:
            self.model.may_be_settled(self.turns[one.token].domain, one.next)
        before = self.frontier._redis.changes.number
        result = self._until_answered(lambda: self.frontier.commit(update, now=self.clock()))
        if self.frontier._redis.changes.number != before:  # else there was nothing to change
            self.model.changed(self.shard, self.frontier._redis.changes.number, self.me.pid)
        for one in update.settled:
            turn = self.turns.pop(one.token)
            urls = {item.url for item in turn.items}
            if one.token in result.lost:
                self.model.excuses.update(urls)
            else:
                self.model.visited |= urls
        return result.added

    def _claim(self) -> None:
        now = self.clock()
        request = ClaimRequest(turns=3, urls_per_turn=6, now=now, lease=LEASE, hold=HOLD)
        try:
            turns = self.frontier.claim(request)
        except Unavailable:  # it may have happened: the turns are lost, and their leases end
            self.model.claim_in_doubt = True
            return
        for turn in turns:
            self.model.claimed(turn, now)
            self.turns[turn.token] = turn

    def _until_answered(self, ask: Any) -> Any:
        while True:
            try:
                return ask()
            except Unavailable:
                if self.is_stopping or self.pipe.is_hung_up:
                    raise
                self.me.sleep(1.0)

    def _inbox(self, shard: int) -> RedisInbox:
        return RedisInbox(self.server, inbox_key(shard))

    def _copy(self) -> CrawlProgress:
        fields = {name: getattr(self.progress, name) for name in self.progress.__struct_fields__}
        return CrawlProgress(**fields)

    def _excuse(self) -> None:
        for turn in self.turns.values():
            self.model.excuses.update(item.url for item in turn.items)


class ClusterModel:
    def __init__(self, world: World) -> None:
        self.world, rng = world, world.rng
        self.site = Site(world)
        self.shards = rng.randint(1, 3)
        loss = rng.choice((0.0, 0.005, 0.03))
        self.network = Network(world, loss=loss, late=loss / 3, repeated=0.0, timeout=TIMEOUT)
        self.redis = redis_server.SimulatedRedis(world, self.network)
        redis_server.install(self.redis)
        self.machines = [world.machine("machine-0"), world.machine("machine-1")]
        self.children: list[tuple[Process, ShardChild]] = []
        self.visited: set[str] = set()
        self.fetches: Counter[str] = Counter()
        self.excuses: Counter[str] = Counter()
        self.changes: dict[tuple[int, int], int] = {}
        self.not_before: dict[str, float] = {}
        self.claim_in_doubt = False
        self.ends: list[str] = []
        self.is_quiet = False
        for url in self.site.seeds:
            self.redis.ask("XADD", inbox_key(self.shard_of(url)), "*", "letter", url)
        places = [self.machines[0], self.machines[0], self.machines[1]]
        self.services = [
            Service(world, machine, f"node-{number}", self._node(number))
            for number, machine in enumerate(places[: rng.randint(2, 3)])
        ]
        self.faults = FaultInjector(world, self.services, self._rates())
        if loss:
            self._plan_partition()
        self._watch_children()

    def _rates(self) -> FaultRates:
        rng = self.world.rng
        return FaultRates(
            kills=rng.choice((0.0, 60.0, 200.0)),
            stalls=rng.choice((0.0, 100.0)),
            cuts=rng.choice((0.0, 300.0)),
            longest_stall=3 * LIFE,
        )

    def _plan_partition(self) -> None:
        def begin() -> None:
            if not self.is_quiet:
                self.network.cut_off(self.world.rng.choice(self.machines), self.world.rng.uniform(1, 3 * LIFE))
                self._plan_partition()

        self.world.after(self.world.rng.expovariate(1 / 200.0), begin)

    def _watch_children(self) -> None:
        """Processes of a node that died see the end of their pipes; until then they go on."""
        for node, child in self.children:
            if not node.is_alive and not child.is_hung_up:
                self.world.after(self.world.rng.uniform(0.0, 10.0), child.hang_up)
        self.children = [pair for pair in self.children if pair[1].process.is_alive]
        self.world.after(1.0, self._watch_children)

    def shard_of(self, url: str) -> int:
        return sum(domain_of(url).encode()) % self.shards

    # --- nodes ---

    def _node(self, number: int) -> Any:
        def main() -> None:
            me = seams.current
            assert me
            while not self.ends and self.run_node(me, number) == "again":  # nobody begins a run anew that has ended
                pause(self.world, 5.0)

        return main

    def run_node(self, me: Process, number: int) -> str:
        """Take part in the crawl, and return why it ended; "again" for a node that has to be started again."""
        cluster = ClusterState(redis_server.URL, NAME, life=LIFE, timeout=TIMEOUT)
        place = me.machine.name
        info = NodeInfo(id=f"{me.name}-{me.pid}", folder=place, slot=f"{place}/{number}", host=place, pid=me.pid)
        options: Any = SimpleNamespace(limits=CrawlLimits(), rules=SimpleNamespace(page_resources=False))
        try:
            run = cluster.join(info, flags={}, limits={}, is_dead=self._is_dead(me.machine))
            node = ClusterNode(
                options,
                self.shards,
                cluster=cluster,
                info=info,
                run=run,
                seeds=SeedList(0, lambda: 0),
                start=lambda *arguments: ShardChild(self, me, arguments[1]),
            )
            end = run_until_done(node, show=lambda _: None)
        except (Unavailable, Conflict, Misconfigured) as error:
            self.world.note(me.name, f"ended: {type(error).__name__}")
            self.world.counts["nodes ended by errors"] += 1
            return "again"
        self.ended(me.name, end)
        return end

    def _is_dead(self, machine: Machine) -> Any:
        """Return what tells dead nodes of a machine, as the locks of their slots do."""

        def is_dead(node: NodeInfo) -> bool:
            alive = {process.pid for process in machine.processes if process.is_alive}
            return node.host == machine.name and node.pid not in alive

        return is_dead

    # --- what is seen from outside ---

    def fetched(self, url: str) -> None:
        self.fetches[url] += 1
        self.world.counts["fetches"] += 1

    def claimed(self, turn: DomainTurn, now: float) -> None:
        self.world.note("server", f"claimed {len(turn.items)} of {turn.domain}")
        early = self.not_before.get(turn.domain, 0.0) - now
        self.world.check(early <= 0.01, f"{turn.domain} was offered {early:.1f} s before its time")
        self.not_before[turn.domain] = now + HOLD

    def may_be_settled(self, domain: str, after: float | None) -> None:
        if after is not None:
            self.not_before[domain] = min(after, self.not_before[domain])

    def changed(self, shard: int, number: int, pid: int) -> None:
        before = self.changes.setdefault((shard, number), pid)
        self.world.check(before == pid, f"change {number} of shard {shard} was made by two processes")

    def ended(self, name: str, end: str) -> None:
        self.world.note(name, f"end: {end}")
        self.ends.append(end)
        missing = {url for url in self.site.reached() - self.visited if not self._is_visited(url)}
        self.world.check(end == "finished", f"{name} ended as {end}")
        self.world.check(not missing, f"the crawl ended as finished without {len(missing)} pages")

    def _is_visited(self, url: str) -> bool:
        """Ask Redis about a page whose process died before it heard that the visit was stored."""
        cluster = ClusterState(redis_server.URL, NAME, life=LIFE, timeout=TIMEOUT)
        while True:
            try:
                return cluster.visit(f"shard-{self.shard_of(url):02d}", url) is not None
            except Unavailable:
                continue

    def finish(self) -> None:
        world = self.world

        def is_done() -> bool:
            return all(service.is_done for service in self.services)

        world.run(is_done, seconds=400.0)
        self.is_quiet = self.network.is_calm = True
        self.faults.stop()
        if not world.run(is_done, seconds=7200.0):
            world.fail("the crawl did not end")
            return
        repeats = sum(self.fetches.values()) - len(self.visited)
        disturbed = sum(world.counts[name] for name in ("kills", "power cuts", "stalls", "shards lost", "answer lost"))
        disturbed += world.counts["request lost"] + world.counts["request delayed"] + world.counts["partitions"]
        world.check(not repeats or disturbed > 0, f"{repeats} pages were fetched twice, and nothing had happened")


def inbox_key(shard: int) -> str:
    return f"{{{NAME}}}:inbox-{shard:02d}"


def simulate(world: World) -> None:
    ClusterModel(world).finish()
