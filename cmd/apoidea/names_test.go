//go:build unix

package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/node/control"
)

// TestPeersHaveNames: real peers, two of one name and one without, are shown by their names beside
// their IDs by whichever of them is asked.
func TestPeersHaveNames(t *testing.T) {
	dir := func(name string) string { return filepath.Join(t.TempDir(), name) }
	first, second, third := dir("first"), dir("second"), dir("third")
	said, _ := peer(t, first, "--name", "bee.one")
	if !strings.Contains(said.String(), "peer bee.one 12D3") {
		t.Errorf("it does not introduce itself: %s", said)
	}
	addr, _ := say(t, "peers", "--addrs", "--quiet", "--data-dir", first)
	peer(t, second, "--name", "hive", "--bootstrap", addr)
	peer(t, third, "--name", "hive", "--bootstrap", addr)
	nameless := dir("nameless")
	peer(t, nameless, "--bootstrap", addr)
	t.Setenv("APOIDEA_DATA_DIR", nameless)

	for _, c := range [][]string{{"ring"}, {"peers"}, {"status", "--ring"}} {
		if out, code := say(t, c...); code != 0 || strings.Count(out, "bee.one") != 1 || strings.Count(out, "hive") != 2 {
			t.Errorf("%v: %s", c, out)
		}
	}
	var s control.Status
	out, _ := say(t, "status", "--ring", "--json")
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	named := map[control.Name]int{}
	for _, p := range s.Peers {
		named[p.Name]++
	}
	if named["bee.one"] != 1 || named["hive"] != 2 || named[""] != 1 {
		t.Errorf("named %v", named)
	}
	if out, code := say(t, "status", "--data-dir", first); code != 0 || !strings.Contains(out, "(bee.one)") {
		t.Errorf("status: %s", out)
	}
	owners := ""
	for host := range strings.FieldsSeq("a.example b.example c.example d.example e.example f.example g.example h.example") {
		out, _ := say(t, "host", host)
		owners += out
	}
	if !strings.Contains(owners, " (hive)\n") {
		t.Errorf("no owner is named: %s", owners)
	}
	if out, code := say(t, "run", "--name", "two words", "--data-dir", dir("none")); code != 2 || !strings.Contains(out, "name") {
		t.Errorf("a name that breaks the rule: %d, %s", code, out)
	}
}
