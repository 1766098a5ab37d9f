package link

import (
	"strings"
	"testing"
)

func TestHopPath(t *testing.T) {
	fifty := strings.Repeat("L", 50)
	for _, row := range []struct {
		from Source
		kind Kind
		want string
	}{
		{Source{Seed: "s"}, KindPage, "L"},
		{Source{Seed: "s", Path: "LL"}, KindRequisite, "LLE"},
		{Source{Seed: "s", Path: "LE", Role: RoleRedirect}, KindRequisite, "LER"},
		{Source{Seed: "s", Path: "P"}, KindSitemap, "PM"},
		{Source{Seed: "s", Path: "PM", Role: RoleSitemap}, KindPage, "PMM"},
		{Source{Seed: "s", Path: "PM", Role: RoleSitemap}, KindRobots, "PMP"},
		{Source{Seed: "s", Path: "R", Role: RoleRedirect}, KindPage, "RR"},
		{Source{Seed: "s", Path: fifty}, KindRequisite, "1+" + fifty[1:] + "E"},
		{Source{Seed: "s", Path: "99+R" + fifty[1:]}, KindPage, "100+" + fifty},
		{Source{Path: "LL"}, KindPage, ""}, // of a page with an unknown path
	} {
		row.from.URL = "http://a.example/"
		if got := row.from.PathTo(row.kind); got != row.want {
			t.Errorf("path of a %s after %q: %q, want %q", row.kind, row.from.Path, got, row.want)
		}
		if !row.from.Valid() {
			t.Errorf("%+v is not valid", row.from)
		}
	}
}

func TestSourceBounds(t *testing.T) {
	const url = "http://a.example/"
	long := url + strings.Repeat("x", MaxSource)
	for name, s := range map[string]Source{
		"no URL": {}, "long URL": {URL: long}, "long seed": {URL: url, Seed: long}, "role": {URL: url, Role: RoleRedirect + 1},
		"letter": {URL: url, Path: "LQ"}, "line break": {URL: url, Path: "L\n"}, "many letters": {URL: url, Path: strings.Repeat("L", 51)},
		"omitted": {URL: url, Path: "x+L"}, "negative": {URL: url, Path: "-1+L"}, "long number": {URL: url, Path: "99999999999+L"},
	} {
		if s.Valid() {
			t.Errorf("%s is valid", name)
		}
	}
	for url, want := range map[string]bool{url: true, "http://A.example/": false, url + "\n": false, "via: x": false} {
		if s := (Source{URL: "http://a.example/", Seed: url}); s.Canonical() != want {
			t.Errorf("seed %q canonical: %v", url, !want)
		}
	}
}

func TestProvenanceOfSeed(t *testing.T) {
	const url = "http://a.example/"
	for _, row := range []struct {
		from           *Source
		depth          uint32
		hops           uint8
		kind           Kind
		via, path, got string
	}{
		{nil, 0, 0, KindPage, "", "", url},
		{nil, 1, 0, KindPage, "", "", ""}, // in records of an earlier version
		{nil, 0, 1, KindPage, "", "", ""},
		{nil, 0, 0, KindSitemap, "", "", ""},
		{&Source{URL: "http://b.example/", Path: "L", Seed: "http://c.example/"}, 0, 0, KindRequisite, "http://b.example/", "LE", "http://c.example/"},
	} {
		if via, path, seed := Provenance(row.from, url, row.kind, row.depth, row.hops); via != row.via || path != row.path || seed != row.got {
			t.Errorf("%+v: via %q, path %q, seed %q", row, via, path, seed)
		}
	}
}

// FuzzHopPath checks that the path behind a valid source is one of a valid source.
func FuzzHopPath(f *testing.F) {
	f.Add("4294967295+"+strings.Repeat("L", 50), uint8(0), uint8(0))
	f.Add("LRE", uint8(2), uint8(3))
	f.Fuzz(func(t *testing.T, path string, role, kind uint8) {
		s := Source{URL: "u", Seed: "s", Path: path, Role: Role(role)}
		if !s.Valid() {
			return
		}
		next := Source{URL: "u", Seed: "s", Path: s.PathTo(Kind(kind % 4))}
		if !next.Valid() || next.Path == "" {
			t.Errorf("%q is followed by %q", path, next.Path)
		}
	})
}
