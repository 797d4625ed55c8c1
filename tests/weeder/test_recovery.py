"""A service is ready again, and what waits for it is restarted."""

from tests.support.weeding import API, ETCD, NAMESPACE


async def broken(stand, seconds=300.0):
    """etcd is down for so long that what depends on it waits for minutes."""
    await stand.run(5)
    with stand.world.faults.workload_broken(NAMESPACE, "etcd-main"):
        await stand.run(seconds)


async def test_after_an_outage_of_etcd_the_chain_is_restarted_link_by_link(stand):
    await broken(stand)
    assert len(stand.waiting()) >= 6
    begun = stand.now
    await stand.until(lambda: stand.world.stage.pods.serves(API), within=200)
    await stand.until(lambda: not stand.waiting(), within=60)
    print(stand.now - begun, stand.names())
    for n in stand.notices:
        print(round(n.at - begun, 2), n.reason, n.message)
    assert stand.recovery(ETCD).deletions
    assert stand.recovery(API).deletions
