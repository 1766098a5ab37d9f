package geoip

import (
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/placement"
)

// sample has records of every kind that is read.
func sample(tb testing.TB) []byte {
	return database(tb, map[string]any{
		"192.0.2.0/26":    map[string]any{"country_code": "JP"},
		"192.0.2.64/26":   map[string]any{"country_code": "FR", "city": "Lyon", "latitude": 45.75, "longitude": 4.85},
		"192.0.2.128/26":  map[string]any{"country_code": "FR", "city": "Lyon", "latitude": "45.75", "longitude": "4.85"},
		"192.0.2.192/26":  map[string]any{"country_code": "FR", "latitude": 46.5, "longitude": 2.25},
		"198.51.100.0/26": map[string]any{"country": map[string]any{"iso_code": "NZ"}},
		"198.51.100.64/26": map[string]any{
			"city": map[string]any{"names": map[string]any{"en": "Oslo"}}, "country": map[string]any{"iso_code": "NO"},
			"location": map[string]any{"latitude": 59.9, "longitude": 10.7},
		},
		"198.51.100.128/26": map[string]any{"registered_country": map[string]any{"iso_code": "BR"}},
		"198.51.100.192/26": map[string]any{"country_code": "EU"},
		"203.0.113.0/27":    map[string]any{"country_code": "ZA", "city": "x", "latitude": 0.0, "longitude": 0.0},
		"203.0.113.32/27":   map[string]any{"country_code": "ZA", "city": "x", "latitude": 91.0, "longitude": 10.0},
		"203.0.113.64/27":   map[string]any{"country_code": "ZA", "city": "x", "latitude": math.NaN(), "longitude": 10.0},
		"203.0.113.96/27":   map[string]any{"country_code": "ZA", "city": "x", "latitude": "south", "longitude": "10"},
		"203.0.113.128/27":  map[string]any{"country_code": "ZA", "city": "x", "latitude": -30.0},
		"203.0.113.160/27":  map[string]any{"country_code": 7},
		"203.0.113.192/27":  "text",
	})
}

func TestLocate(t *testing.T) {
	db, err := Decode(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	country, city := placement.CountryPosition, placement.CityPosition
	za := Centroid("ZA")
	tests := map[string]struct {
		addr string
		want placement.Position
	}{
		"flat, country":                  {"192.0.2.1", Centroid("JP")},
		"flat, city":                     {"192.0.2.65", placement.Position{Lat: 45.75, Lon: 4.85, Precision: city}},
		"flat, numbers as text":          {"192.0.2.129", placement.Position{Lat: 45.75, Lon: 4.85, Precision: city}},
		"flat, coordinates of no city":   {"192.0.2.193", placement.Position{Lat: 46.5, Lon: 2.25, Precision: country}},
		"nested, country":                {"198.51.100.1", Centroid("NZ")},
		"nested, city":                   {"198.51.100.65", placement.Position{Lat: 59.9, Lon: 10.7, Precision: city}},
		"nested, where it is registered": {"198.51.100.129", Centroid("BR")},
		"a region is no country":         {"198.51.100.193", placement.Position{}},
		"zero and zero is unknown":       {"203.0.113.1", za},
		"beyond the pole":                {"203.0.113.33", za},
		"not a number":                   {"203.0.113.65", za},
		"not a number, as text":          {"203.0.113.97", za},
		"half of a position":             {"203.0.113.129", za},
		"a number for a country":         {"203.0.113.161", placement.Position{}},
		"text for a record":              {"203.0.113.193", placement.Position{}},
		"not in the database":            {"8.8.8.8", placement.Position{}},
		"IPv4 in IPv6":                   {"::ffff:192.0.2.1", Centroid("JP")},
		"IPv6 in a database of IPv4":     {"2001:db8::1", placement.Position{}},
		"with a zone":                    {"fe80::1%eth0", placement.Position{}},
	}
	for name, tt := range tests {
		if got := db.Locate(netip.MustParseAddr(tt.addr)); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
	if got := db.Locate(netip.Addr{}); got != (placement.Position{}) {
		t.Errorf("no address: %+v", got)
	}
	if db.Type() != "test" {
		t.Errorf("type %q", db.Type())
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	good, packed := filepath.Join(dir, "good.mmdb"), filepath.Join(dir, "packed.mmdb.gz")
	for path, data := range map[string][]byte{good: sample(t), packed: []byte("\x1f\x8b not unpacked")} {
		if err := os.WriteFile(path, data, 0o400); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(good); err != nil {
		t.Error(err)
	}
	for name, path := range map[string]string{"not there": filepath.Join(dir, "none"), "packed": packed, "a directory": dir} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want one that names %s", name, err, path)
		}
	}
}

// TestDeveloperSet looks a few well-known networks up in a real database.
func TestDeveloperSet(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "shared", "data", "geoip", "geo-whois-asn-country-ipv4.mmdb")
	if _, err := os.Stat(path); err != nil {
		t.Skip("no ../shared/data/geoip")
	}
	db, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for addr, code := range map[string]string{"193.0.6.139": "NL", "133.11.0.1": "JP", "130.149.7.201": "DE", "129.94.0.1": "AU"} {
		if got := db.Locate(netip.MustParseAddr(addr)); got != Centroid(code) {
			t.Errorf("%s: %+v, want the middle of %s, %+v", addr, got, code, Centroid(code))
		}
	}
}

func TestCentroids(t *testing.T) {
	if len(centroids) != 250 {
		t.Errorf("%d countries, want the 249 of ISO 3166-1 and Kosovo", len(centroids))
	}
	code := regexp.MustCompile("^[A-Z]{2}$")
	for c, at := range centroids {
		if !code.MatchString(c) || math.Abs(at[0]) > 90 || math.Abs(at[1]) > 180 || math.Mod(at[0]*2, 1) != 0 || math.Mod(at[1]*2, 1) != 0 {
			t.Errorf("%q at %v: not two capitals, or not half degrees of the globe", c, at)
		}
	}
	// Capitals, and how far the middle of the country may be from them.
	capitals := map[string]struct{ lat, lon, within float64 }{
		"FR": {48.9, 2.4, 400}, "DE": {52.5, 13.4, 400}, "JP": {35.7, 139.7, 400}, "KE": {-1.3, 36.8, 300}, "IS": {64.1, -21.9, 300}, "NZ": {-41.3, 174.8, 300},
		"SG": {1.3, 103.8, 60}, "LU": {49.6, 6.1, 60}, "UY": {-34.9, -56.2, 250}, "IN": {28.6, 77.2, 800}, "US": {38.9, -77, 2000}, "BR": {-15.8, -47.9, 1000},
	}
	for c, at := range capitals {
		if d := Centroid(c).Distance(placement.Position{Lat: at.lat, Lon: at.lon}); d > at.within {
			t.Errorf("%s: %.0f km from its capital, want up to %.0f", c, d, at.within)
		}
	}
	for _, none := range []string{"", "EU", "AP", "fr", "ZZ"} {
		if p := Centroid(none); p.Precision != placement.NoPosition {
			t.Errorf("%q: %+v", none, p)
		}
	}
}

// FuzzDecode: whatever is in a file, an answer is a position on the globe or none.
func FuzzDecode(f *testing.F) {
	good := sample(f)
	f.Add(good, []byte{192, 0, 2, 65})
	f.Add(good[:len(good)-20], []byte{192, 0, 2, 65})
	f.Add(database(f, map[string]any{"128.0.0.0/1": map[string]any{"country_code": "JP"}}), []byte{200, 0, 0, 1})
	f.Add([]byte("\xab\xcd\xefMaxMind.com\xe0"), []byte{1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, data, ip []byte) {
		db, err := Decode(data)
		if err != nil {
			return
		}
		addr, _ := netip.AddrFromSlice(ip)
		p := db.Locate(addr)
		if !(math.Abs(p.Lat) <= 90 && math.Abs(p.Lon) <= 180) || p.Precision > placement.CityPosition {
			t.Errorf("%v is at %+v", addr, p)
		}
	})
}
