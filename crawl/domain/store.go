package domain

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

const (
	// DefaultHosts is the host limit of a registrable domain in a job (design, section 6).
	DefaultHosts = 1000
	// LabHosts is the limit on one machine, where all hosts of a synthetic web, and all ports of an
	// address, are in one domain. No experiment has as many.
	LabHosts = 10_000
	// MaxPorts is the limit of ports of one name or address in a job, besides the default ports: a
	// page may link to all ports, and a crawl must not scan them. Sites have two or three.
	MaxPorts = 16
	// MaxRecords is the number of records, some 100 bytes each, above which further hosts wait.
	MaxRecords = 4 << 20
	// MaxOptOuts is the limit of opt-outs in one registrable domain.
	MaxOptOuts = 256
	// maxHost bounds a host's name with its port.
	maxHost = 260
	// maxCounts bounds the cached counts of admitted hosts.
	maxCounts = 1 << 14

	format = 1
)

// Errors for callers to compare.
var (
	// ErrFull is returned if MaxRecords, or MaxOptOuts of a domain, are stored.
	ErrFull = errors.New("too many domain records")
	// ErrRecord is returned for a malformed record.
	ErrRecord = errors.New("domain record: malformed or unknown format")
)

// Verdict is the reply of a domain's owner for a host.
type Verdict uint8

// The verdicts; the numbers are part of the wire and the disk format.
const (
	// Unknown: not requested, or no reply at present.
	Unknown Verdict = iota
	// Admitted: the job may have the host.
	Admitted
	// Crowded: the job has reached the domain's host limit.
	Crowded
	// OptedOut: the domain, or a name in it that covers the host, has opted out.
	OptedOut
	// Ported: the job has reached the port limit of the host's name.
	Ported

	verdictEnd
)

// TurnsAway reports whether the job may not have the host because of the domain's others.
func (v Verdict) TurnsAway() bool { return v == Crowded || v == Ported }

// Valid reports whether an untrusted byte is a verdict.
func (v Verdict) Valid() bool { return v < verdictEnd }

// Before orders the verdicts that copies have for one host: admitted wins, since the host may have
// been fetched.
func (v Verdict) Before(w Verdict) bool {
	weight := [verdictEnd]int{Unknown: 0, Ported: 1, Crowded: 2, OptedOut: 3, Admitted: 4}
	return weight[v] < weight[w]
}

// Key returns the ring position of a registrable domain.
func Key(domain string) ring.Key { return ring.KeyOf([]byte("/apoidea/domain/" + domain)) }

func posOf(domain string) ring.Pos { return ring.PosOf(Key(domain)) }

// Keys: the position of the registrable domain, then
//
//	'a' JOB hash16   a host admitted to a job; the value is its name
//	'o' hash16       a name that opted out, at present or earlier; the value is an OptOut
const (
	kindAdmitted = 'a'
	kindOptOut   = 'o'

	hashSize = 16
)

func prefixOf(pos ring.Pos, kind byte, rest ...byte) []byte {
	return append(append(pos[:], kind), rest...)
}

func hashed(prefix []byte, name string) []byte {
	sum := sha256.Sum256([]byte(name))
	return append(prefix, sum[:hashSize]...)
}

// Store holds the domain records of a peer.
type Store struct {
	// ProveOptOuts withholds verdicts on hosts below an opt-out in a record of another owner until it
	// was checked at the site.
	ProveOptOuts bool

	claims  map[string]struct{} // domains
	records kv.Store
	hosts   int // limit of a job for a domain
	count   int // stored records
	most    int
	counts  map[countKey]int // of admitted hosts; a cache
	ports   map[portKey]int  // of their names, without default ports; a cache
}

type countKey struct {
	pos ring.Pos
	id  job.ID
}

// portKey is a name with ports in a job.
type portKey struct {
	countKey
	name string
}

// New returns a Store of records, which it counts. Hosts is the limit of a job for a domain, 0:
// unlimited.
func New(records kv.Store, hosts int) (*Store, error) {
	s := &Store{records: records, hosts: hosts, most: MaxRecords, claims: make(map[string]struct{}), counts: make(map[countKey]int), ports: make(map[portKey]int)}
	var err error
	s.count, err = s.number(nil, nil)
	return s, err
}

func (s *Store) number(lo, hi []byte) (n int, err error) {
	if n, err = kv.Count(s.records, lo, hi); err != nil {
		return 0, fmt.Errorf("counting domains: %w", err)
	}
	return n, nil
}

// Admit returns for each canonical host whether a job may have it, and stores the admitted ones.
// Verdicts are repeatable, except for opt-outs. The reply may be sent when wait has returned, which
// is never nil.
func (s *Store) Admit(id job.ID, hosts []string) (verdicts []Verdict, wait func() error, err error) {
	fresh := make(map[string][]byte) // by key
	added, ports := make(map[countKey]int), make(map[portKey]int)
	for _, host := range hosts {
		v, key, err := s.judge(id, host, fresh, added, ports)
		if err != nil {
			return nil, kv.OnDisk, err
		}
		if key != nil {
			fresh[string(key)] = append([]byte{format}, host...)
			k := countKey{posOf(Of(host)), id}
			if added[k]++; HasPort(host) {
				ports[portKey{k, job.HostName(host)}]++
			}
		}
		verdicts = append(verdicts, v)
	}
	if len(fresh) == 0 {
		return verdicts, kv.OnDisk, nil
	}
	if s.count+len(fresh) > s.most {
		return nil, kv.OnDisk, fmt.Errorf("%w: %d records", ErrFull, s.count)
	}
	if wait, err = s.set(fresh); err != nil {
		return nil, kv.OnDisk, err
	}
	s.count += len(fresh)
	for k, n := range added {
		s.counts[k] += n
	}
	for k, n := range ports {
		s.ports[k] += n // portsFull has set it, as none is added without
	}
	return verdicts, wait, nil
}

// judge returns the verdict for one host, with a key if it must be stored.
func (s *Store) judge(id job.ID, host string, fresh map[string][]byte, added map[countKey]int, ports map[portKey]int) (v Verdict, key []byte, err error) {
	if host == "" || len(host) > maxHost {
		return Unknown, nil, fmt.Errorf("%w: host of %d bytes", ErrRecord, len(host))
	}
	d := Of(host)
	out, err := s.OptOut(host)
	if out != nil && out.Unproved && len(s.claims) < maxClaims {
		s.claims[out.Domain] = struct{}{}
	}
	if err != nil || out.Out() {
		return OptedOut, nil, err
	}
	if out != nil {
		return Unknown, nil, nil // it is asked for again
	}
	pos := posOf(d)
	key = hashed(prefixOf(pos, kindAdmitted, id[:]...), host)
	if _, ok := fresh[string(key)]; ok {
		return Admitted, nil, nil
	}
	_, ok, err := s.records.Get(key)
	if err != nil || ok {
		return Admitted, nil, err
	}
	k := countKey{pos, id}
	n, err := s.admitted(k)
	if err != nil {
		return Unknown, nil, err
	}
	if Plain(host) {
		return Admitted, key, nil
	}
	if s.hosts > 0 && n+added[k] >= s.hosts {
		return Crowded, nil, nil
	}
	if full, err := s.portsFull(portKey{k, job.HostName(host)}, host, ports); err != nil || full {
		return Ported, nil, err
	}
	return Admitted, key, nil
}

// portsFull reports whether a host would exceed the port limit of its name.
func (s *Store) portsFull(k portKey, host string, added map[portKey]int) (bool, error) {
	if !HasPort(host) {
		return false, nil
	}
	n, ok := s.ports[k]
	if !ok {
		prefix := prefixOf(k.pos, kindAdmitted, k.id[:]...)
		if err := s.records.Scan(prefix, kv.PrefixEnd(prefix), func(_, value []byte) bool {
			if len(value) > 1 && HasPort(string(value[1:])) && job.HostName(string(value[1:])) == k.name {
				n++
			}
			return n < MaxPorts
		}); err != nil {
			return false, fmt.Errorf("counting ports: %w", err)
		}
		if len(s.ports) >= maxCounts {
			clear(s.ports)
		}
		s.ports[k] = n
	}
	return n+added[k] >= MaxPorts, nil
}

// admitted counts the hosts of a domain in a job.
func (s *Store) admitted(k countKey) (int, error) {
	if n, ok := s.counts[k]; ok {
		return n, nil
	}
	prefix := prefixOf(k.pos, kindAdmitted, k.id[:]...)
	n, err := s.number(prefix, kv.PrefixEnd(prefix))
	if err != nil {
		return 0, err
	}
	if len(s.counts) >= maxCounts {
		clear(s.counts)
	}
	s.counts[k] = n
	return n, nil
}

func (s *Store) set(values map[string][]byte) (wait func() error, err error) {
	wait, err = s.records.Update(func(b kv.Batch) {
		for key, value := range values {
			b.Set([]byte(key), value)
		}
	})
	if err != nil {
		return kv.OnDisk, fmt.Errorf("storing domains: %w", err)
	}
	return wait, nil
}

// Of returns the registrable domain of a canonical host: its public suffix and one more label, or
// the name itself if it is a suffix or an address. The port is ignored. The result is a substring
// of host.
func Of(host string) string {
	name := job.HostName(host)
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return name
	}
	if d, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return d
	}
	return name
}

// HasPort reports whether a host has a port other than its scheme's default.
func HasPort(host string) bool { return len(job.HostName(host)) < len(host) }

// Plain reports whether a host needs no admission: it is its registrable domain itself, or www
// below it, at the scheme's default port. At most two such hosts exist, so they cannot form a trap,
// and most sites have no others: a crawl of many sites needs no requests.
func Plain(host string) bool {
	d := Of(host)
	return host == d || strings.TrimSuffix(host, d) == "www."
}

// Covers reports whether a host is a domain or below it.
func Covers(domain, host string) bool {
	rest, ok := strings.CutSuffix(job.HostName(host), domain)
	return ok && (rest == "" || rest[len(rest)-1] == '.')
}
