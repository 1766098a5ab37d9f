package salvage_test

import (
	"errors"
	"testing"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/owner/salvage"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// TestReadBack: a record that is made here says what it was made of, and half of it says nothing.
func TestReadBack(t *testing.T) {
	id := job.ID{7}
	f := &ondisk.Final{URL: "http://a.example/x", Outcome: link.OutcomeOK, Depth: 2, Kind: link.KindPage, RecordID: make([]byte, 16)}
	pos := ring.PosOf(ring.HostKey("a.example"))
	for _, c := range []struct {
		rec  kv.Record
		kind salvage.Kind
	}{
		{salvage.HostRecord("a.example"), salvage.KindHost},
		{salvage.DoneRecord(id, f), salvage.KindDone},
		{salvage.AgainRecord(id, f), salvage.KindWaiting},
	} {
		r, err := salvage.ReadRecord(c.rec.Key, c.rec.Value)
		if err != nil || r.Kind != c.kind || r.Host != "a.example" || r.Pos != pos {
			t.Errorf("kind %d: %+v, %v", c.kind, r, err)
		}
		if c.kind != salvage.KindHost && (r.Job != id || r.URL != f.URL) {
			t.Errorf("kind %d: URL %q of job %s", c.kind, r.URL, r.Job)
		}
		for _, key := range [][]byte{nil, c.rec.Key[:5]} {
			if _, err := salvage.ReadRecord(key, c.rec.Value); err == nil {
				t.Errorf("kind %d: key %x is taken", c.kind, key)
			}
		}
		if _, err := salvage.ReadRecord(c.rec.Key, c.rec.Value[:1]); c.kind != salvage.KindHost && !errors.Is(err, ondisk.ErrFormat) {
			t.Errorf("kind %d: a value that was cut: %v", c.kind, err)
		}
	}
	elsewhere := salvage.DoneRecord(id, &ondisk.Final{URL: "http://b.example/"})
	elsewhere.Key = salvage.DoneRecord(id, f).Key
	if _, err := salvage.ReadRecord(elsewhere.Key, elsewhere.Value); !errors.Is(err, ondisk.ErrFormat) {
		t.Errorf("a URL of another host: %v", err)
	}
}

// TestMember: a URL whose pending record has the rest names that record.
func TestMember(t *testing.T) {
	pos := ring.PosOf(ring.HostKey("a.example"))
	at := ondisk.Spot{Depth: 1, Seq: 5}
	n := ondisk.Entry{At: at}
	r, err := salvage.ReadRecord(ondisk.EntryKey(pos, job.ID{7}, 9), n.Encode())
	if err != nil || r.Kind != salvage.KindMember || string(r.Beside) != string(at.Key(pos, job.ID{7})) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestMendedAccount: what was promised to URLs is spent.
func TestMendedAccount(t *testing.T) {
	a := ondisk.Accounts{Pages: ondisk.Account{Drawn: 9, Used: 2, Bound: 3}, Bytes: ondisk.Account{Drawn: 90, Bound: 30}}
	raw, err := salvage.MendedAccount(a.Encode())
	if err != nil {
		t.Fatal(err)
	}
	got, err := ondisk.DecodeAccounts(raw)
	if err != nil || got.Pages != (ondisk.Account{Drawn: 9, Used: 5}) || got.Bytes != (ondisk.Account{Drawn: 90, Used: 30}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := salvage.MendedAccount(raw[:1]); err != nil {
		t.Errorf("an empty account: %v", err)
	}
	if _, err := salvage.MendedAccount([]byte{99}); !errors.Is(err, ondisk.ErrFormat) {
		t.Errorf("what a later version wrote: %v", err)
	}
}

// left are the records that damage has left.
type left []kv.Record

func (l left) Scan(_, _ []byte, fn func(key, value []byte) bool) error {
	for _, r := range l {
		if !fn(r.Key, r.Value) {
			break
		}
	}
	return nil
}

// TestNameOf: the name of a host is found in what is left of its URLs.
func TestNameOf(t *testing.T) {
	done := salvage.DoneRecord(job.ID{7}, &ondisk.Final{URL: "http://a.example/x", Outcome: link.OutcomeOK})
	broken := kv.Record{Key: done.Key, Value: []byte{99}}
	pos := ring.PosOf(ring.HostKey("a.example"))
	if name, err := salvage.NameOf(left{broken, done}, pos); name != "a.example" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	if name, err := salvage.NameOf(left{broken}, pos); name != "" || err != nil {
		t.Errorf("of nothing: %q, %v", name, err)
	}
}
