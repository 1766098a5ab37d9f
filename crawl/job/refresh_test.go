package job

import (
	"crypto/ed25519"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/wire"
)

func TestOnlyThePosterAsksForVisits(t *testing.T) {
	_, private, _ := ed25519.GenerateKey(nil)
	_, other, _ := ed25519.GenerateKey(nil)
	mine, theirs := NewKey(private), NewKey(other)
	spec := &Spec{ID: NewID(), Poster: mine.ID(), Signature: []byte("x")}
	a := &wire.Again{Host: "a.example", Url: [][]byte{[]byte("http://a.example/")}, AtS: 7, Now: true}
	if spec.Permits(a) || !new(Spec).Permits(a) {
		t.Error("without a signature: only unsigned jobs")
	}
	theirs.SignAgain(a)
	if spec.Permits(a) {
		t.Error("signed by another key")
	}
	mine.SignAgain(a)
	Key{}.SignAgain(a)
	if !spec.Permits(a) || len(a.GetConsents()) != 2 {
		t.Error("signed by the poster's key")
	}
	for _, change := range []func(*wire.Again){
		func(b *wire.Again) { b.Host = "b.example" }, func(b *wire.Again) { b.Url = nil }, func(b *wire.Again) { b.AtS++ }, func(b *wire.Again) { b.Now = false },
	} {
		b := proto.CloneOf(a)
		if change(b); spec.Permits(b) {
			t.Errorf("changed after it was signed: %v", b)
		}
	}
}

func TestRefreshIsParsedAndPrinted(t *testing.T) {
	for text, want := range map[string]struct{ perDay, within float64 }{
		"off":          {0, math.Inf(1)},
		"20000/day":    {20000, math.Inf(1)},
		"7d":           {0, 7},
		"12h0m0s":      {0, 0.5},
		"1h30m0s":      {0, 1.5 / 24},
		"3650d":        {0, 3650},
		"10s":          {0, 10. / 86400},
		"1/day":        {1, math.Inf(1)},
		"99999999/day": {99999999, math.Inf(1)},
	} {
		r, err := ParseRefresh(text)
		if err != nil || r.Validate() != nil || r.PerDay() != want.perDay || math.Abs(r.Within()-want.within) > 1e-9 && !math.IsInf(want.within, 1) || r.String() != text {
			t.Errorf("%s: %v, %v, %v a day, within %v days, printed %s", text, uint64(r), err, r.PerDay(), r.Within(), r)
		}
	}
	for _, text := range []string{"", "7", "0/day", "-1/day", "9s", "3651d", "day", "1e3/day", "1099511627777/day", "99999999999999999999d", "0d", "-7d", "NaNd"} {
		if r, err := ParseRefresh(text); err == nil {
			t.Errorf("%q is accepted as %v", text, r)
		}
	}
	for _, r := range []Refresh{3, 2*maxRefreshVisits + 2, math.MaxUint64, math.MaxUint64 - 1} {
		if r.Validate() == nil {
			t.Errorf("%d is accepted", uint64(r))
		}
	}
}
