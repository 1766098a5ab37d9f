package internet

import (
	"bytes"
	"compress/gzip"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/node/latency"
)

func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.String()
}

// file writes a file of the test; an empty text is no file.
func file(t *testing.T, name, text string) string {
	t.Helper()
	if text == "" {
		return ""
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const square = "0,10,NaN\n12,0,30\nnan,NaN,0\n"

func TestLoadSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		rtt, prefixes, hierarchy, says string
	}{
		"plain":              {square, "", "", ""},
		"gzip":               {zipped(square), "", "", ""},
		"not square":         {"0,1\n", "", "", "rtt: not a square: 1 rows of 2 columns"},
		"too long":           {"0,1\n1,0\n2,2\n", "", "", "not a square: more rows than the 2 columns"},
		"ragged":             {"0,1\n1\n", "", "", "line 2: wrong number of fields"},
		"words":              {"0,1\nb,0\n", "", "", `line 2, column 1: "b" is not a round trip in milliseconds; a matrix has no header and no labels`},
		"less than nothing":  {"0,-1\n5,0\n", "", "", `line 1, column 2: "-1" is not`},
		"infinite":           {"0,Inf\n5,0\n", "", "", `"Inf" is not`},
		"holes only":         {"0,NaN\nNaN,0\n", "", "", "no RTT"},
		"broken archive":     {zipped(square)[:20], "", "", "unexpected EOF"},
		"prefixes alone":     {"", "node,prefix\n0,1.0.0.0/8\n", "", "rtt matrix"},
		"prefixes":           {square, "node,prefix\n0,1.0.0.0/8\n2,2001:db8::/32\n", "", ""},
		"columns any order":  {square, "\ufeffCountry, Prefix ,x,NODE\nde,1.0.0.0/8,,2\n", "", ""},
		"no header":          {square, "0,1.0.0.0/8\n", "", `column "node"`},
		"nothing":            {square, "node,prefix\n", "", "no rows"},
		"a name":             {square, "node,prefix\neu,1.0.0.0/8\n", "", `line 2, column node: "eu" is not a number`},
		"a node too far":     {square, "node,prefix\n4,1.0.0.0/8\n", "", `line 2, column node: "4" `},
		"from 0 and 1":       {square, "node,prefix\n3,1.0.0.0/8\n0,1.0.0.0/8\n", "", `line 3, column node: "0"`},
		"from 1":             {square, "node,prefix\n1,1.0.0.0/8\n3,1.0.0.0/8\n", "", ""},
		"no prefix":          {square, "node,prefix\n1,1.0.0.0/33\n", "", `line 2, column prefix: "1.0.0.0/33" is not a network`},
		"no country":         {square, "node,prefix,country\n1,1.0.0.0/8,Peru\n", "", `column country: "Peru"`},
		"hierarchy":          {square, "", "prefix\n1.0.0.0/8\n", ""},
		"no networks":        {square, "", "prefix,org\n", "hierarchy: no networks"},
		"an address":         {square, "", "org,prefix\na,1.0.0.0\n", `hierarchy: line 2, column prefix: "1.0.0.0" is not`},
		"not of one kind":    {square, "", "prefix\n::ffff:1.2.3.0/120\n", "is not a network"},
		"bad quotes":         {square, "", "prefix,org\n1.0.0.0/8,a\"b\n", "line 2"},
		"delegated":          {square, "", "2|r|1|1|1|1|0\nr|DE|ipv4|1.0.0.0|256|1|allocated|x\n", ""},
		"a record too short": {square, "", "2|r|1|1|1|1|0\nr|DE|ipv4|1.0.0.0\n", `line 2: "r|DE|ipv4|1.0.0.0" has 4 fields`},
		"a count of none":    {square, "", "2|r|1|1|1|1|0\nr|DE|ipv4|1.0.0.0|0|1|allocated|x\n", `line 2, column value: "0" does not fit`},
		"beyond the end":     {square, "", "2|r|1|1|1|1|0\nr|DE|ipv4|255.255.255.0|257|1|assigned|x\n", `"257" does not fit`},
		"a prefix too long":  {square, "", "2|r|1|1|1|1|0\nr|DE|ipv6|2001::|129|1|assigned|x\n", `"129" does not fit`},
		"wrong family":       {square, "", "2|r|1|1|1|1|0\nr|DE|ipv4|2001::|129|1|assigned|x\n", `line 2, column start: "2001::" is not an address of ipv4`},
		"unknown type":       {square, "", "2|r|1|1|1|1|0\nr|DE|ipv5|2001::|129|1|assigned|x\n", `column type: "ipv5"`},
		"a line too long":    {square, "", "2|r|1|1|1|1|0\n" + strings.Repeat("x", 1<<12+1), "4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(Options{RTT: file(t, "rtt", c.rtt), Prefixes: file(t, "prefixes", c.prefixes), Hierarchy: file(t, "hierarchy", c.hierarchy)})
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("error %v, want %q in it", err, c.says)
			}
		})
	}
	if _, err := Load(Options{RTT: "no-such-file"}); err == nil || !strings.Contains(err.Error(), "rtt matrix") {
		t.Errorf("error %v of a file that is not there", err)
	}
}

func TestPrefixes(t *testing.T) {
	load := func(seed uint64, prefixes, hierarchy string) *Internet {
		n, err := Load(Options{Seed: seed, RTT: file(t, "rtt", square), Prefixes: file(t, "p", prefixes), Hierarchy: file(t, "h", hierarchy)})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	text := "node,prefix,country\n0,192.0.2.0/24,\n2,2001:db8::/32,\n2,198.51.100.7/32,NL\n"
	n := load(1, text, "prefix,country,org\n192.0.0.0/16,AU,\n192.0.2.0/25,,a\n192.0.2.128/25,,b\n192.0.2.0/30,CH,c\n")
	if a := n.Addr(0); !netip.MustParsePrefix("192.0.2.0/24").Contains(a) || n.Addr(3) != a {
		t.Errorf("node 0 is at %v, host 3 beside it at %v", a, n.Addr(3))
	}
	if c := n.Country(0); c != "AU" && c != "CH" {
		t.Errorf("country %q, not that of the registry", c)
	}
	if n.Addr(1).IsValid() || n.Country(1) != "" {
		t.Errorf("node 1 has no prefix and yet address %v, country %q", n.Addr(1), n.Country(1))
	}
	if n.Addr(2).String() != "198.51.100.7" || n.Country(2) != "NL" {
		t.Errorf("node 2 is at %v in %q", n.Addr(2), n.Country(2))
	}
	if _, _, ok := n.Position(0); ok {
		t.Error("a position that nobody gave")
	}
	if again := load(1, text, ""); again.Addr(0) != n.Addr(0) || again.Hierarchy() != nil {
		t.Error("the same seed draws another address, or a hierarchy was invented")
	}
	drawn := make(map[netip.Addr]bool)
	for seed := range uint64(20) {
		drawn[load(seed, text, "").Addr(0)] = true
	}
	if len(drawn) < 10 {
		t.Errorf("20 seeds draw %d addresses", len(drawn))
	}
	one := load(1, "node,prefix\n1,192.0.2.0/30\n3,192.0.2.1/32\n", "")
	if a := one.Addr(0).String(); a != "192.0.2.1" && a != "192.0.2.2" || one.Addr(2).String() != "192.0.2.1" {
		t.Errorf("nodes counted from 1: %v, %v", one.Addr(0), one.Addr(2))
	}
}

func FuzzPrefixes(f *testing.F) {
	f.Add([]byte("node,prefix\n0,192.0.2.0/24\n"))
	f.Add([]byte("prefix,country,node\n2001:db8::/127,de,3\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		const size = 3
		rtts, err := latency.ReadMatrix(strings.NewReader("0,1,1\n1,0,1\n1,1,0\n"), false)
		if err != nil {
			t.Fatal(err)
		}
		m := &matrix{Matrix: rtts}
		rows, err := readPrefixes(bytes.NewReader(data), size)
		if err != nil {
			return
		}
		m.settle(rows, 1)
		for _, r := range rows {
			if r.node < 0 || r.node >= size || !r.prefix.IsValid() || !m.addrs[r.node].IsValid() {
				t.Fatalf("%+v", r)
			}
		}
	})
}
