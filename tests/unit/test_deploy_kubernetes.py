"""The manifests: of the shape that Kubernetes wants, and what they name is there."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.deploy_files import DEPLOY, MANIFESTS, ROOT, containers, is_ours, manifests, named, pods
from webmill.pipeline.dataset.config import load_dataset

VERSIONS = ("1.31", "1.34")
PODS = list(pods())
IDS = [f"{manifest['kind']} {template['spec']['containers'][0]['name']}" for manifest, template in PODS]
CUSTOM = {"RayCluster"}
WALLS = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def labels(template: dict[str, Any], manifest: dict[str, Any]) -> dict[str, str]:
    """With those that KubeRay adds."""
    own: dict[str, str] = dict(template["metadata"]["labels"])
    return own | ({"ray.io/cluster": manifest["metadata"]["name"]} if manifest["kind"] == "RayCluster" else {})


def selected(selector: dict[str, str]) -> list[dict[str, Any]]:
    return [template for manifest, template in PODS if selector.items() <= labels(template, manifest).items()]


def port_names(template: dict[str, Any]) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for one in containers(template) for port in one.get("ports", ())}


@pytest.mark.parametrize("version", VERSIONS)
def test_they_are_of_the_schema(version: str) -> None:
    import kubernetes_validate

    for manifest in manifests():
        if manifest["kind"] not in CUSTOM:
            kubernetes_validate.validate(manifest, version, strict=True)


def test_each_has_a_name_of_its_own_and_belongs_to_webmill() -> None:
    found = [(one["kind"], one["metadata"]["name"]) for one in manifests()]
    assert len(found) == len(set(found))
    assert {one["metadata"]["labels"]["app.kubernetes.io/part-of"] for one in manifests()} == {"webmill"}
    assert not named("Secret")  # those are made by hand


@pytest.mark.parametrize(("manifest", "template"), PODS, ids=IDS)
def test_selectors_select_their_own_pods(manifest: dict[str, Any], template: dict[str, Any]) -> None:
    selector = manifest["spec"].get("selector", {}).get("matchLabels", {})
    assert selector.items() <= template["metadata"]["labels"].items()
    assert template["metadata"]["labels"]["app.kubernetes.io/part-of"] == "webmill"


@pytest.mark.parametrize(("manifest", "template"), PODS, ids=IDS)
def test_pods_can_do_little(manifest: dict[str, Any], template: dict[str, Any]) -> None:
    spec = template["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for one in containers(template):
        assert one["securityContext"] == WALLS
        assert "memory" in one["resources"]["limits"]
        assert {"cpu", "memory"} <= set(one["resources"]["requests"])
        assert is_ours(one["image"]) or re.fullmatch(r"[\w/-]+:\d+\.\d+\.\d+", one["image"])
        assert spec["securityContext"]["runAsUser"] == (10001 if is_ours(one["image"]) else 999)


@pytest.mark.parametrize(("manifest", "template"), PODS, ids=IDS)
def test_what_a_pod_mounts_and_reads_is_there(manifest: dict[str, Any], template: dict[str, Any]) -> None:
    claims = {claim["metadata"]["name"] for claim in manifest["spec"].get("volumeClaimTemplates", ())}
    volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
    for one in containers(template):
        assert {mount["name"] for mount in one["volumeMounts"]} <= set(volumes) | claims
        assert "/tmp" in {mount["mountPath"] for mount in one["volumeMounts"]}
        for source in one.get("envFrom", ()):
            assert source.get("configMapRef", {"name": "webmill"})["name"] in named("ConfigMap")
    for volume in volumes.values():
        assert volume.get("configMap", {"name": "webmill"})["name"] in named("ConfigMap")
        if claim := volume.get("persistentVolumeClaim"):
            assert claim["claimName"] in named("PersistentVolumeClaim")


@pytest.mark.parametrize(("manifest", "template"), PODS, ids=IDS)
def test_probes_and_prometheus_ask_ports_that_are_open(manifest: dict[str, Any], template: dict[str, Any]) -> None:
    ports = port_names(template)
    for one in containers(template):
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            probe = one.get(kind, {})
            for way in ("httpGet", "tcpSocket"):
                assert probe.get(way, {"port": next(iter(ports), "")})["port"] in (ports or {"": 0})
    asked = template["metadata"].get("annotations", {}).get("prometheus.io/port")
    assert asked is None or int(asked) in ports.values()


def test_secrets_are_those_that_somebody_is_told_to_make() -> None:
    reported = " ".join(path.read_text() for path in MANIFESTS if path.name == "settings.yaml")
    for _, template in PODS:
        for one in containers(template):
            references = [name["valueFrom"]["secretKeyRef"] for name in one.get("env", ()) if "valueFrom" in name]
            for reference in references:
                assert f"secret generic {reference['name']} " in reported
                assert f"--from-literal={reference['key']}=" in reported
            for source in one.get("envFrom", ()):
                assert f"secret generic {source.get('secretRef', {'name': 'webmill'})['name']} " in reported


@pytest.mark.parametrize("kind", ["Service", "PodDisruptionBudget", "NetworkPolicy"])
def test_what_selects_pods_finds_some(kind: str) -> None:
    for one in named(kind).values():
        spec = one["spec"]
        selector = spec.get("podSelector", spec.get("selector", {}))
        assert selected(selector.get("matchLabels", selector))


def test_services_lead_to_ports_by_their_names() -> None:
    for service in named("Service").values():
        for template in selected(service["spec"]["selector"]):
            assert {port["targetPort"] for port in service["spec"]["ports"]} <= set(port_names(template))
    services = named("Service")
    for stateful in named("StatefulSet").values():
        assert stateful["spec"]["serviceName"] in services
    for rule in (rule for ingress in named("Ingress").values() for rule in ingress["spec"]["rules"]):
        (path,) = rule["http"]["paths"]
        backend = path["backend"]["service"]
        ports = {port["name"] for port in services[backend["name"]]["spec"]["ports"]}
        assert backend["port"]["name"] in ports


def test_what_may_not_be_ended_all_at_once_has_a_budget() -> None:
    several = {**named("Deployment"), **named("StatefulSet")}
    several = {name: one for name, one in several.items() if one["spec"]["replicas"] > 1}
    assert several.keys() == named("PodDisruptionBudget").keys()


def test_walls_let_those_through_that_must() -> None:
    policies = named("NetworkPolicy")
    (numbers,) = policies["prometheus-reads-numbers"]["spec"]["ingress"]
    asked = {int(t["metadata"].get("annotations", {}).get("prometheus.io/port", 0)) for _, t in PODS} - {0}
    assert {port["port"] for port in numbers["ports"]} == asked
    for policy in policies.values():
        for rule in policy["spec"].get("ingress", []):
            for port in rule.get("ports", ()):
                targets = selected(policy["spec"]["podSelector"]["matchLabels"])
                assert port["port"] in {number for target in targets for number in port_names(target).values()}


def words_of(name: str) -> list[str]:
    (words,) = (one["args"] for _, t in PODS for one in containers(t) if one["name"] == name)
    return list(words)


def test_a_crawl_begins_when_all_its_nodes_are_there() -> None:
    crawler = named("StatefulSet")["crawler"]["spec"]
    assert f"--nodes={crawler['replicas']}" in words_of("crawler")
    assert crawler["podManagementPolicy"] == "Parallel"
    assert "--refresh" in words_of("crawler")  # one that ends would be started again for ever


def test_redis_is_the_same_as_elsewhere() -> None:
    elsewhere = (DEPLOY / "redis" / "redis.conf").read_text().splitlines()
    here = named("ConfigMap")["redis"]["data"]["redis.conf"].splitlines()
    assert here == [line for line in elsewhere if not line.startswith("#")]


def test_work_that_is_done_with_rejects_is_not_done_again() -> None:
    for job in named("Job").values():
        (codes,) = (rule["onExitCodes"] for rule in job["spec"]["podFailurePolicy"]["rules"] if "onExitCodes" in rule)
        assert codes["values"] == [2, 3]
        assert codes["containerName"] == job["spec"]["template"]["spec"]["containers"][0]["name"]
        assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def ray_parameters() -> Iterator[str]:
    spec = named("RayCluster")["webmill-ray"]["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        yield from group["rayStartParams"]


def test_ray_is_the_one_that_is_locked_and_takes_its_parameters() -> None:
    cluster = named("RayCluster")["webmill-ray"]["spec"]
    locked = re.search(r"^ray==(\S+)", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE)
    assert locked
    assert cluster["rayVersion"] == locked[1]
    client = cluster["headGroupSpec"]["rayStartParams"]["ray-client-server-port"]
    assert words_of("dataset")[-1] == f"ray://webmill-ray-head-svc:{client}"
    ray = importlib.util.find_spec("ray")
    if not ray or not ray.origin:
        pytest.skip("needs ray")
    text = (Path(ray.origin).parent / "scripts" / "scripts.py").read_text()  # to import it takes many seconds
    assert set(ray_parameters()) <= set(re.findall(r'"--([\w-]+)"', text))


def test_the_description_of_the_dataset_is_one(tmp_path: Path) -> None:
    file = tmp_path / "news.toml"
    file.write_text(named("ConfigMap")["dataset"]["data"]["news.toml"])
    assert load_dataset(file).name == words_of("dataset")[2]
