package registry

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// measured is the folder of real measurements, beside the repository; tests on them are skipped
// where it is not.
func measured(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join("..", "..", "..", "..", "shared", "data", name)
	if _, err := os.Stat(path); err != nil {
		t.Skip("no real measurements: ", err)
	}
	return path
}

// listed writes networks one to a line.
func listed(networks []Network) string {
	var b strings.Builder
	for _, n := range networks {
		b.WriteString(n.Prefix.String() + " " + n.Org + " " + n.Country + "\n")
	}
	return b.String()
}

func TestHierarchy(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"sorted, and nested ones inherit": {
			"org,prefix,country\n,10.1.2.0/24,\nb,10.2.0.0/16,FR\na,10.0.0.0/8,de\n,11.0.0.0/8,\n",
			"10.0.0.0/8 a DE\n10.1.2.0/24 a DE\n10.2.0.0/16 b FR\n11.0.0.0/8  \n",
		},
		"twice": {
			"prefix,org,country\n10.0.0.0/8,,DE\n10.0.0.9/8,\"a, b\",FR\n2001:db8::/32,c,\n",
			"10.0.0.0/8 a, b DE\n2001:db8::/32 c \n",
		},
		"delegated": {
			"# by hand\n2.3|reg|20230323|9|0|1|+0000\nreg|*|ipv4|*|4|summary\nreg|ZA|asn|1228|1|1991|allocated|F36\n" +
				"reg|ZA|ipv4|41.0.1.0|1024|2000|allocated|F36\nreg|ZZ|ipv4|41.9.0.0|256||available|\nreg||ipv4|41.8.0.0|256|1|assigned|A1\n" +
				"reg|KE|ipv6|2001:db8::|32|2000|assigned|F36\n",
			"41.0.1.0/24 reg:F36 ZA\n41.0.2.0/23 reg:F36 ZA\n41.0.4.0/24 reg:F36 ZA\n41.8.0.0/24 reg:A1 \n2001:db8::/32 reg:F36 KE\n",
		},
		"delegated without ids": {
			"2|reg|20230323|9|0|1|0\nreg|ZA|ipv4|0.0.0.0|4294967295|2000|allocated\n",
			"0.0.0.0/1  ZA\n",
		},
	} {
		got, err := decode(bufio.NewReader(strings.NewReader(c.text)))
		if err != nil || !strings.HasPrefix(listed(got), c.want) {
			t.Errorf("%s: error %v, networks\n%swant\n%s", name, err, listed(got), c.want)
		}
	}
}

func TestRealNetworks(t *testing.T) {
	for name, want := range map[string]struct{ networks, orgs int }{
		"rir/ip-hierarchy-a.csv.gz":                      {431_651, 27_524},
		"rir/delegated-afrinic-extended-20230323.txt.gz": {4_621, 2_000},
	} {
		t.Run(name, func(t *testing.T) {
			networks, err := load(measured(t, name))
			if err != nil {
				t.Fatal(err)
			}
			orgs := make(map[string]bool)
			for _, n := range networks {
				orgs[n.Org] = true
			}
			// Delegations that are no power of two, and IPv6, make more networks than a file
			// counts.
			if len(networks) < want.networks || len(networks) > 3*want.networks || len(orgs) < want.orgs || len(orgs) > want.orgs+3000 {
				t.Errorf("%d networks of %d organisations, want %+v", len(networks), len(orgs), want)
			}
		})
	}
}

func TestFilesAreBounded(t *testing.T) {
	b := &bounded{strings.NewReader("abc"), 2}
	p := make([]byte, 8)
	if n, err := b.Read(p); n != 2 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if n, err := b.Read(p); n != 0 || err == nil {
		t.Errorf("%d bytes beyond the bound, %v", n, err)
	}
	long := names{}.of(strings.Repeat("ä", maxOrg))
	if len(long) > maxOrg || len(long) < maxOrg-1 {
		t.Errorf("a name of %d bytes", len(long))
	}
}

func FuzzHierarchy(f *testing.F) {
	f.Add([]byte("prefix,org,country\n10.0.0.0/8,a,DE\n10.1.0.0/16,,\n"))
	f.Add([]byte("2|r|1|1|1|1|0\nr|DE|ipv4|1.0.0.0|257|1|allocated|x\n"))
	f.Add([]byte("2|r|1|1|1|1|0\nr|DE|ipv6|2001::|32|1|assigned|x\n"))
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, done, err := unpack(bytes.NewReader(data))
		if err != nil {
			return
		}
		defer done()
		networks, err := decode(in)
		if err != nil {
			return
		}
		for i, n := range networks {
			if n.Prefix != n.Prefix.Masked() || len(n.Org) > maxOrg+64 || i > 0 && Compare(networks[i-1], n.Prefix) >= 0 {
				t.Fatalf("network %d: %+v", i, n)
			}
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	path := measured(b, "rir/ip-hierarchy-a.csv.gz")
	for b.Loop() {
		if _, err := load(path); err != nil {
			b.Fatal(err)
		}
	}
}
