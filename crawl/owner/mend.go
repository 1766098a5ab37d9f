package owner

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// What mends the records of a peer after damage: it reads what is left of them and imports it into an empty store, which counts everything anew.

// Kind says what a record is about.
type Kind uint8

// The kinds of records under hosts.
const (
	// KindOther are records that stand for themselves.
	KindOther Kind = iota
	// KindHost is the record of a host itself, KindWaiting a URL that waits, KindDone one with its outcome.
	KindHost
	KindWaiting
	KindDone
	// KindMember is a URL of which only the hash is here: the record that waits has the rest.
	KindMember
	// KindDerived follows from others.
	KindDerived
	// KindAccount is what this peer drew of a job's budget, KindOwn what else it keeps for itself.
	KindAccount
	KindOwn
)

// Read is what a record says.
type Read struct {
	Kind Kind     // what the record is
	Host string   // as far as the record tells
	Pos  ring.Pos // of records under a host
	Job  job.ID   // of records of a job on it
	URL  string   // of records of a URL, as far as the record tells
	// Final is set of KindDone.
	Final *Final
	// Beside is the key of the record that KindMember needs.
	Beside []byte
}

// ReadRecord reads a record of an owner's store. An error says that it is none.
func ReadRecord(key, value []byte) (r Read, err error) {
	if len(key) == 0 {
		return r, errFormat
	}
	switch key[0] {
	case spaceHost:
		return readUnderHost(key, value)
	case spaceBudget:
		_, err = decodeAccounts(value)
		return Read{Kind: KindAccount}, err
	case spaceJob, spaceTotals, spaceWork, spaceOptOut:
		return Read{Kind: KindDerived}, nil
	default:
		return Read{Kind: KindOwn}, nil
	}
}

func readUnderHost(key, value []byte) (r Read, err error) {
	if len(key) < 1+ring.PosSize+1 {
		return r, errFormat
	}
	r.Pos = ring.Pos(key[1:])
	kind, tail := key[1+ring.PosSize], key[1+ring.PosSize+1:]
	if kind != kindHost && kind != kindRobots {
		if len(tail) < job.IDSize {
			return r, errFormat
		}
		r.Job = job.ID(tail)
		tail = tail[job.IDSize:]
	}
	switch kind {
	case kindHost:
		rec, derr := decodeHost(value)
		r.Kind, r.Host, err = KindHost, rec.name, derr
	case kindReady, kindDelayed:
		p, derr := decodeValue(value)
		r.Kind, r.URL, err = KindWaiting, p.url, derr
	case kindEntry:
		if len(tail) != 8 {
			return r, errFormat
		}
		err = r.entry(key, value)
	case kindCounters:
		_, err = decodeCounters(value)
	case kindOutlinks, kindOutbox:
		_, err = decodeLinks(value)
	case kindRobots:
		_, err = decodeRobots(value)
	default: // Import knows whether it is a record
	}
	if err == nil && r.URL != "" {
		if r.Host = link.Host(r.URL); ring.PosOf(ring.HostKey(r.Host)) != r.Pos {
			err = errFormat
		}
	}
	return r, err
}

func (r *Read) entry(key, value []byte) error {
	n, err := decodeEntry(value)
	switch {
	case err != nil:
		return err
	case n.done:
		r.Kind, r.URL, r.Final = KindDone, n.final.URL, &n.final
	case n.waits != nil:
		r.Kind, r.URL = KindWaiting, n.waits.url
	default:
		r.Kind, r.Beside = KindMember, n.at.key(ring.Pos(key[1:]), job.ID(key[1+ring.PosSize+1:]))
	}
	return nil
}

// HostRecord is a host of which nothing is known but its name, as Import takes it.
func HostRecord(name string) kv.Record {
	rec := hostRecord{name: name}
	return kv.Record{Key: hostKey(ring.PosOf(ring.HostKey(name))), Value: rec.encode()}
}

// DoneRecord is a URL with its outcome, as Import takes it.
func DoneRecord(id job.ID, f *Final) kv.Record {
	n := entry{done: true, final: *f}
	return kv.Record{Key: entryKey(ring.PosOf(ring.HostKey(link.Host(f.URL))), id, link.Hash(id, f.URL)), Value: n.encode()}
}

// AgainRecord is a URL that had an outcome and waits once more, as Import takes it.
func AgainRecord(id job.ID, f *Final) kv.Record {
	hash := link.Hash(id, f.URL)
	p := pending{hash: hash, place: place{depth: f.Depth}, hops: f.Hops, kind: f.Kind, url: f.URL}
	n := entry{at: p.place}
	return kv.Record{Key: entryKey(ring.PosOf(ring.HostKey(link.Host(f.URL))), id, hash), Value: append(n.encode(), p.encode()[1:]...)}
}

// MendedAccount is what an account of a job's budget says once what was promised to URLs is spent: imported URLs have been paid for.
func MendedAccount(value []byte) ([]byte, error) {
	a, err := decodeAccounts(value)
	if err != nil {
		return nil, err
	}
	a.pages.spend(a.pages.bound)
	a.bytes.spend(a.bytes.bound)
	return a.encode(), nil
}

// NameOf finds the name of a host whose own record is lost, from the URLs that are left of it; empty if there is none.
func NameOf(store Scanner, pos ring.Pos) (name string, err error) {
	prefix := hostPrefix(pos)
	err = store.Scan(prefix, kv.PrefixEnd(prefix), func(key, value []byte) bool {
		if r, rerr := ReadRecord(key, value); rerr == nil {
			name = r.Host
		}
		return name == ""
	})
	return name, err
}

// Mend brings records into an owner whose store was empty: in key order, any number at a time. Of what Import refuses it tells, and takes the rest. A step.
func (o *Owner) Mend(kvs []kv.Record, refused func(kv.Record, error)) error {
	if err := o.Import(kvs); err == nil || o.buf.err != nil {
		return o.buf.err
	}
	for i := range kvs { // one of them; those before it come to the same once more
		if err := o.Import(kvs[i : i+1]); err != nil && o.buf.err == nil {
			refused(kvs[i], err)
		}
	}
	return o.buf.err
}
