package show

import (
	"strings"
	"testing"

	"github.com/apoidea/apoidea/node/control"
)

func TestLookupRows(t *testing.T) {
	own := &control.Lookup{Owner: "me", Calls: 0}
	if rows := lookupRows(own, "me"); !strings.Contains(rows[len(rows)-1][1], ", the owner") {
		t.Errorf("a lookup without a call does not say so: %q", rows)
	}
	far := &control.Lookup{Owner: "c", Calls: 2, Trace: []control.LookupHop{{Peer: "b", LatencyMs: 1.5, Answer: "ask c"}, {Peer: "c", Answer: "owner"}}}
	rows := lookupRows(far, "me")
	if got := rows[len(rows)-3:]; got[0][1] != "me  this peer" || got[1][0] != "hop 1" || got[1][1] != "b  1.50 ms  ask c" || got[2][1] != "c  0.00 ms  owner" {
		t.Errorf("hops %q", got)
	}
	if rows := lookupRows(far, ""); rows[len(rows)-1][0] != "calls" {
		t.Errorf("hops without --trace: %q", rows)
	}
}
