package domain

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

const (
	// DefaultHosts is how many hosts of a registrable domain a job may have (design, section 6).
	DefaultHosts = 1000
	// LabHosts is DefaultHosts on one machine, where all hosts of a synthetic web, and all ports of
	// an address, are of one domain. No experiment has as many.
	LabHosts = 10_000
	// MaxPorts is how many ports of one name, or of one address, a job may have beside those of the
	// schemes: a page may name them all, and a crawl is no scan of ports. Sites have two or three.
	MaxPorts = 16
	// MaxRecords is how many records are kept here before hosts that would add to them wait, some
	// 100 bytes each.
	MaxRecords = 4 << 20
	// MaxOptOuts of one registrable domain.
	MaxOptOuts = 256
	// maxHost bounds a host's name with its port.
	maxHost = 260
	// maxCounts bounds the numbers of admitted hosts in memory.
	maxCounts = 1 << 14

	format = 1
)

// Errors that callers tell apart.
var (
	// ErrFull says that MaxRecords, or MaxOptOuts of a domain, are kept.
	ErrFull = errors.New("no room for more domains")
	// ErrRecord says that a record is not what this version writes.
	ErrRecord = errors.New("domain record: malformed or of another format")
)

// Verdict is what the owner of a domain says of a host.
type Verdict uint8

// The verdicts; the numbers are part of the wire and the disk format.
const (
	// Unknown: nobody was asked, or nobody knows now.
	Unknown Verdict = iota
	// Admitted: the job may have the host.
	Admitted
	// Crowded: the job has as many hosts of the domain as it may.
	Crowded
	// OptedOut: the domain, or a part of it with the host, has opted out.
	OptedOut
	// Stale: the last hosts of the domain that the job had brought nothing new.
	Stale
	// Ported: the job has as many ports of the host's name as it may.
	Ported

	verdictEnd
)

// TurnsAway says whether the job is to have nothing of the host on account of its domain's others.
func (v Verdict) TurnsAway() bool { return v == Crowded || v == Stale || v == Ported }

// Valid says whether a stranger's byte is a verdict.
func (v Verdict) Valid() bool { return v < verdictEnd }

// Before orders what copies say of one host: that it was admitted wins, as something of it may have
// been fetched.
func (v Verdict) Before(w Verdict) bool {
	weight := [verdictEnd]int{Unknown: 0, Ported: 1, Crowded: 2, Stale: 3, OptedOut: 4, Admitted: 5}
	return weight[v] < weight[w]
}

// Key is the ring position of a registrable domain.
func Key(domain string) ring.Key { return ring.KeyOf([]byte("/apoidea/domain/" + domain)) }

func posOf(domain string) ring.Pos { return ring.PosOf(Key(domain)) }

// Every key: the position of the registrable domain, then
//
//	'a' JOB hash16   a host admitted to a job; the value is its name
//	'n' JOB          what is known of what the hosts of the domain said in a job, behind the domain's name
//	'o' hash16       a part that opted out, or did once; the value is an OptOut
const (
	kindAdmitted = 'a'
	kindKin      = 'n'
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

// Store is what the peer knows that answers for domains.
type Store struct {
	records kv.Store
	hosts   int // a job may have of a domain
	novelty int // hosts in a row that bring nothing new make a farm; 0: none does
	count   int // records kept
	most    int
	counts  map[countKey]int // of admitted hosts; forgotten at will
	ports   map[portKey]int  // of their names, the schemes' own not among them; forgotten at will
	kins    map[countKey]*kin
}

type countKey struct {
	pos ring.Pos
	id  job.ID
}

// portKey is a name of which a job has ports.
type portKey struct {
	countKey
	name string
}

// New returns the state over records, which it counts. Hosts is how many a job may have of a
// domain, 0: any number; novelty after how many of them in a row that bring nothing new it gets no
// more, 0: never.
func New(records kv.Store, hosts, novelty int) (*Store, error) {
	s := &Store{records: records, hosts: hosts, novelty: novelty, most: MaxRecords, counts: make(map[countKey]int), ports: make(map[portKey]int), kins: make(map[countKey]*kin)}
	var err error
	s.count, err = s.number(nil, nil)
	return s, err
}

func (s *Store) number(lo, hi []byte) (n int, err error) {
	if n, err = kv.Count(s.records, lo, hi); err != nil {
		return 0, fmt.Errorf("count domains: %w", err)
	}
	return n, nil
}

// Admit says of each host, given in canonical form, whether a job may have it, and keeps those that
// it admits. What it said once of a host it says again, but for opt-outs. The answer may leave when
// wait has returned, which is never nil.
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
				ports[portKey{k, Name(host)}]++
			}
		}
		verdicts = append(verdicts, v)
	}
	if len(fresh) == 0 {
		return verdicts, kv.OnDisk, nil
	}
	if s.count+len(fresh) > s.most {
		return nil, kv.OnDisk, fmt.Errorf("%w: %d records are kept", ErrFull, s.count)
	}
	if wait, err = s.set(fresh); err != nil {
		return nil, kv.OnDisk, err
	}
	s.count += len(fresh)
	for k, n := range added {
		s.counts[k] += n
	}
	for k, n := range ports {
		s.ports[k] += n // counted by portsFull just now, as none is added without
	}
	return verdicts, wait, nil
}

// judge says what is to be said of one host; with a key if it is to be noted.
func (s *Store) judge(id job.ID, host string, fresh map[string][]byte, added map[countKey]int, ports map[portKey]int) (v Verdict, key []byte, err error) {
	if host == "" || len(host) > maxHost {
		return Unknown, nil, fmt.Errorf("%w: host of %d bytes", ErrRecord, len(host))
	}
	d := Of(host)
	out, err := s.OptOut(host)
	if err != nil || out != nil {
		return OptedOut, nil, err
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
	if full, err := s.portsFull(portKey{k, Name(host)}, host, ports); err != nil || full {
		return Ported, nil, err
	}
	if stale, err := s.stale(k); err != nil || stale {
		return Stale, nil, err
	}
	return Admitted, key, nil
}

// portsFull says whether a host is one port too many of its name.
func (s *Store) portsFull(k portKey, host string, added map[portKey]int) (bool, error) {
	if !HasPort(host) {
		return false, nil
	}
	n, ok := s.ports[k]
	if !ok {
		prefix := prefixOf(k.pos, kindAdmitted, k.id[:]...)
		if err := s.records.Scan(prefix, kv.PrefixEnd(prefix), func(_, value []byte) bool {
			if len(value) > 1 && HasPort(string(value[1:])) && Name(string(value[1:])) == k.name {
				n++
			}
			return n < MaxPorts
		}); err != nil {
			return false, fmt.Errorf("count ports: %w", err)
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
		return kv.OnDisk, fmt.Errorf("keep domains: %w", err)
	}
	return wait, nil
}
