package link

import (
	"strings"
	"testing"
)

func TestParts(t *testing.T) {
	for _, tc := range []struct{ url, host, origin, pathQuery string }{
		{"https://a.example/b?c", "a.example", "https://a.example", "/b?c"},
		{"http://a.example:8080/", "a.example:8080", "http://a.example:8080", "/"},
		{"http://[::1]:81/x", "[::1]:81", "http://[::1]:81", "/x"},
		{"http://a.example", "a.example", "http://a.example", "/"},
		{"ftp://a.example/", "", "", "/"},
		{"", "", "", "/"},
	} {
		if h, o, p := Host(tc.url), Origin(tc.url), PathQuery(tc.url); h != tc.host || o != tc.origin || p != tc.pathQuery {
			t.Errorf("%q: %q, %q, %q", tc.url, h, o, p)
		}
	}
}

func TestHash(t *testing.T) {
	job := [16]byte{1, 2, 3}
	// First bytes of SHA-256 over the sixteen bytes of the job and the URL: this is a disk format.
	if got := Hash(job, "https://a.example/"); got != 0xce7f1b435ffd1f51 {
		t.Errorf("got %#x", got)
	}
	if Hash(job, "https://a.example/") == Hash([16]byte{}, "https://a.example/") {
		t.Error("the job is no part of the hash")
	}
	for _, n := range []int{0, 495, 496, 497, MaxURL, MaxURL + 1} {
		url := strings.Repeat("u", n)
		if Hash(job, url) != hashLong(job, url) {
			t.Errorf("%d bytes: short and long differ", n)
		}
	}
	short, long := strings.Repeat("u", 100), strings.Repeat("u", 5000)
	if n := testing.AllocsPerRun(10, func() { Hash(job, short); Hash(job, long) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkHash(b *testing.B) {
	for b.Loop() {
		Hash([16]byte{1}, "https://docs.example.org/3/library/os.path.html")
	}
}

func BenchmarkHost(b *testing.B) {
	for b.Loop() {
		Host("https://docs.example.org/3/library/os.path.html")
	}
}
