package control

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestNames: a name that breaks the rule is dropped wherever it is unpacked, and nothing else with
// it.
func TestNames(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("n", MaxName)
	for name, want := range map[string]Name{
		"": "", "peer1": "peer1", "a.B-c_9": "a.B-c_9", longest: Name(longest), longest + "n": "",
		"two words": "", "é": "", "\x1b[31m": "", "line\n": "", "<b>": "", "a/b": "",
	} {
		raw, err := json.Marshal(map[string]string{"peer": "id", "name": name})
		if err != nil {
			t.Fatal(err)
		}
		var m Member
		if err := json.Unmarshal(raw, &m); err != nil || m.Peer != "id" || m.Name != want {
			t.Errorf("%q: %q of %q, %v, want %q", name, m.Name, m.Peer, err, want)
		}
	}
}
