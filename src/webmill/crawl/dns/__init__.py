"""Names to addresses: name servers asked over UDP and TCP, from the event loop, without threads.

    client = DnsClient(NameServerList())                       # those of /etc/resolv.conf
    found = await client.look_up("example.org", seconds=10)    # LookupResult, with how long it holds

A recursive name server is asked for A and AAAA at once. What is done about each oddity:

| oddity | answer |
|---|---|
| no reply in a fifth of the time | the next server (or the same one) is asked; a late reply still counts |
| SERVFAIL, a damaged reply, aliases in circles | the next server is asked; `dns_failed` when all say so |
| REFUSED, a server that nobody answers for (ICMP) | the next one, and all once more after a pause |
| silence of all | `dns_timeout` |
| no such name; no addresses | `dns_notfound`, for as long as the zone says |
| a truncated reply | asked again over TCP, on one connection for all |
| FORMERR, NOTIMP: the server knows no EDNS | asked again without |
| another id, question or sender; no reply at all | not believed, and the right one is waited for |
| the question in another case (0x20) | not believed; asked again over TCP |
| addresses of other names, thousands of addresses, pointers in circles | see `formats.dns` |
| an alias whose target the server left out | the target is asked for, `MAX_FOLLOWED` times |
| the second of A and AAAA never comes | half a second after the first, that one alone is the answer |
| a server that has been silent for long | comes last; is tried first now and then, to find out that it is back |
"""
