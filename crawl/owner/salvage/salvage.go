package salvage

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// Kind says what a record is about.
type Kind uint8

// The kinds of records under hosts.
const (
	// KindOther are records that stand for themselves.
	KindOther Kind = iota
	// KindHost is the record of a host itself, KindWaiting a URL that waits, KindDone one with its
	// outcome.
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
	Final *ondisk.Final
	// Beside is the key of the record that KindMember needs.
	Beside []byte
}

// ReadRecord reads a record of an owner's store. An error says that it is none.
func ReadRecord(key, value []byte) (r Read, err error) {
	if len(key) == 0 {
		return r, ondisk.ErrFormat
	}
	switch key[0] {
	case ondisk.SpaceHost:
		return readUnderHost(key, value)
	case ondisk.SpaceBudget:
		_, err = ondisk.DecodeAccounts(value)
		return Read{Kind: KindAccount}, err
	case ondisk.SpaceJob, ondisk.SpaceTotals, ondisk.SpaceWork, ondisk.SpaceOptOut:
		return Read{Kind: KindDerived}, nil
	default:
		return Read{Kind: KindOwn}, nil
	}
}

func readUnderHost(key, value []byte) (r Read, err error) {
	if len(key) < 1+ring.PosSize+1 {
		return r, ondisk.ErrFormat
	}
	r.Pos = ring.Pos(key[1:])
	kind, tail := key[1+ring.PosSize], key[1+ring.PosSize+1:]
	if kind != ondisk.KindHost && kind != ondisk.KindRobots {
		if len(tail) < job.IDSize {
			return r, ondisk.ErrFormat
		}
		r.Job = job.ID(tail)
		tail = tail[job.IDSize:]
	}
	switch kind {
	case ondisk.KindHost:
		rec, derr := ondisk.DecodeHost(value)
		r.Kind, r.Host, err = KindHost, rec.Name, derr
	case ondisk.KindReady, ondisk.KindDelayed:
		p, derr := ondisk.DecodeWaiting(value)
		r.Kind, r.URL, err = KindWaiting, p.URL, derr
	case ondisk.KindEntry:
		if len(tail) != 8 {
			return r, ondisk.ErrFormat
		}
		err = r.entry(key, value)
	case ondisk.KindCounters:
		_, err = ondisk.DecodeCounters(value)
	case ondisk.KindOutbox:
		_, err = ondisk.DecodeLinks(value)
	case ondisk.KindRobots:
		_, err = ondisk.DecodeRobots(value)
	default: // Import knows whether it is a record
	}
	if err == nil && r.URL != "" {
		if r.Host = link.Host(r.URL); ring.PosOf(ring.HostKey(r.Host)) != r.Pos {
			err = ondisk.ErrFormat
		}
	}
	return r, err
}

func (r *Read) entry(key, value []byte) error {
	n, err := ondisk.DecodeEntry(value)
	switch {
	case err != nil:
		return err
	case n.Done:
		r.Kind, r.URL, r.Final = KindDone, n.Final.URL, &n.Final
	case n.Waits != nil:
		r.Kind, r.URL = KindWaiting, n.Waits.URL
	default:
		r.Kind, r.Beside = KindMember, n.At.Key(ring.Pos(key[1:]), ondisk.JobIn(key))
	}
	return nil
}

// HostRecord is a host of which nothing is known but its name, as Import takes it.
func HostRecord(name string) kv.Record {
	rec := ondisk.Host{Name: name}
	return kv.Record{Key: ondisk.HostKey(ring.PosOf(ring.HostKey(name))), Value: rec.Encode()}
}

// DoneRecord is a URL with its outcome, as Import takes it.
func DoneRecord(id job.ID, f *ondisk.Final) kv.Record {
	n := ondisk.Entry{Done: true, Final: *f}
	return kv.Record{Key: ondisk.EntryKey(ring.PosOf(ring.HostKey(link.Host(f.URL))), id, link.Hash(id, f.URL)), Value: n.Encode()}
}

// AgainRecord is a URL that had an outcome and waits once more, as Import takes it.
func AgainRecord(id job.ID, f *ondisk.Final) kv.Record {
	hash := link.Hash(id, f.URL)
	p := ondisk.Pending{Hash: hash, Spot: ondisk.Spot{Depth: f.Depth}, Hops: f.Hops, Kind: f.Kind, URL: f.URL}
	n := ondisk.Entry{At: p.Spot}
	return kv.Record{Key: ondisk.EntryKey(ring.PosOf(ring.HostKey(link.Host(f.URL))), id, hash), Value: append(n.Encode(), p.Encode()[1:]...)}
}

// MendedAccount is what an account of a job's budget says once what was promised to URLs is spent:
// imported URLs have been paid for.
func MendedAccount(value []byte) ([]byte, error) {
	a, err := ondisk.DecodeAccounts(value)
	if err != nil {
		return nil, err
	}
	a.Pages.Spend(a.Pages.Bound)
	a.Bytes.Spend(a.Bytes.Bound)
	return a.Encode(), nil
}

// NameOf finds the name of a host whose own record is lost, from the URLs that are left of it;
// empty if there is none.
func NameOf(store ondisk.Scanner, pos ring.Pos) (name string, err error) {
	prefix := ondisk.HostPrefix(pos)
	err = store.Scan(prefix, kv.PrefixEnd(prefix), func(key, value []byte) bool {
		if r, rerr := ReadRecord(key, value); rerr == nil {
			name = r.Host
		}
		return name == ""
	})
	return name, err
}
