package storage

// Every key begins with one of these bytes; the owner of the keyspace defines the rest. Numbers in
// keys are big-endian, so that the order of keys is the order of numbers. A "ring position" is a
// prefix of the SHA-256 that places a host, a body or a job on the ring (dht/ring), so that all
// records of an arc are one range of keys, or two if the arc passes zero: a handoff scans a range.
//
//	prefix          owner           key after the prefix
//	KeyspaceContent dedup           ring position of the digest (32 bytes)
//	KeyspaceBodies  node/services/crawling   SHA-256 of a body in this peer's archive (32 bytes)
//	KeyspaceDomains crawl/domain    ring position of the registrable domain (16 bytes), then the layout of its store
//	KeyspaceFormat  storage         "format": how records are laid out, see format.go
//	KeyspaceHosts   crawl/owner     a kind; of hosts 'h', ring position (16 bytes), then the layout of crawl/owner, keys.go
//	KeyspaceJobs    crawl/job       ring position of the job (16 bytes), its ID (16 bytes), then the layout of its registry
//	KeyspaceMeta    node            a name in ASCII: identity, remembered peers, incarnation, listen addresses, known jobs
//	KeyspaceCopies  storage/replica the source (16 bytes of the SHA-256 of its name), then its keys with their keyspaces' bytes, as ondisk.Copied has them
//	KeyspaceScratch node/ops/export     a list, then a line or a key; in temporary databases only
//	KeyspaceSubnets node/services/subnets    ring position of the subnet or organisation (16 bytes), a kind; of an index then the range of the entry
const (
	KeyspaceBodies  byte = 'a'
	KeyspaceContent byte = 'c'
	KeyspaceDomains byte = 'd'
	KeyspaceFormat  byte = 'f'
	KeyspaceHosts   byte = 'h'
	KeyspaceJobs    byte = 'j'
	KeyspaceMeta    byte = 'm'
	KeyspaceCopies  byte = 'r'
	KeyspaceScratch byte = 'x'
	KeyspaceSubnets byte = 's'
)
