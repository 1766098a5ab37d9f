package link

import (
	"strings"
	"testing"
)

// TestURLTestData holds the parser to the cases of web-platform-tests. The rules of the crawl are
// not in it.
func TestURLTestData(t *testing.T) {
	var data struct {
		Cases []struct {
			ID, Input, Base, Href string
			Failure, HTTP         bool
		}
	}
	readShared(t, "urls/urltestdata.json", &data)
	var agreed, all [2]int // the second of each: cases that concern http
	for _, tc := range data.Cases {
		got, ok := href(tc.Base, tc.Input)
		kinds := []int{0}
		if tc.HTTP {
			kinds = append(kinds, 1)
		}
		for _, k := range kinds {
			all[k]++
			if ok == !tc.Failure && got == tc.Href {
				agreed[k]++
			}
		}
		if ok == tc.Failure || got != tc.Href {
			t.Logf("%s: %q against %q: %q, %v; want %q", tc.ID, tc.Input, tc.Base, got, ok, tc.Href)
		}
	}
	for k, name := range []string{"all", "http"} {
		share := 100 * float64(agreed[k]) / float64(all[k])
		t.Logf("%s: %d of %d, %.1f %%", name, agreed[k], all[k], share)
		if share < 98 {
			t.Errorf("%s: %.1f %%, want 98", name, share)
		}
	}
}

// TestCanon holds the parser to those modes that describe the WHATWG serialisation.
func TestCanon(t *testing.T) {
	var data struct {
		Cases []struct {
			ID, Mode, Input string
			Expect          *string
		}
	}
	readShared(t, "urls/canon.json", &data)
	ran := 0
	for _, tc := range data.Cases {
		var got string
		var ok bool
		switch tc.Mode {
		case "whatwg-supplement":
			got, ok = href("", tc.Input)
		case "path-dots-special":
			got, ok = href("", "http://a.example"+tc.Input)
			got = strings.TrimPrefix(got, "http://a.example")
		case "ipv4-host":
			got, ok = href("", "http://"+tc.Input)
			got = strings.TrimSuffix(strings.TrimPrefix(got, "http://"), "/")
		default:
			continue
		}
		ran++
		if ok == (tc.Expect != nil) && (!ok || got == *tc.Expect) {
			continue
		}
		if notWHATWG[tc.ID] == "" {
			t.Errorf("%s (%s): %q: got %q, %v", tc.ID, tc.Mode, tc.Input, got, ok)
		}
	}
	if ran == 0 {
		t.Error("no case ran")
	}
}

// notWHATWG are the cases whose expectation the URL standard does not share, with what the standard
// says.
var notWHATWG = map[string]string{
	"canon-0372": "no scheme and no base is a failure",
	"canon-0373": "no scheme and no base is a failure",
	"canon-0397": "a host of dots is a name, not 0.0.0.0 (the crawl refuses it)",
	"canon-0399": "a host of dots is a name, not 0.0.0.0 (the crawl refuses it)",
	"canon-0401": "a host of dots is a name, not 0.0.0.0 (the crawl refuses it)",
	"canon-0404": "a host of dots is a name, not 0.0.0.0 (the crawl refuses it)",
	"canon-0405": "a host of dots is a name, not 0.0.0.0 (the crawl refuses it)",
	"canon-0407": "a host of dots is a name, not 0.0.0.0 (the crawl refuses it)",
	"canon-0417": "a host of dots is a name, not 0.0.0.0",
	"canon-0438": "a space in a fragment is escaped",
	"canon-0439": "an escaped space in a host is a failure",
	"canon-0477": "x is no octal digit, so this is a name and not an address",
	"canon-0827": "a backslash is a slash in http URLs",
	"canon-0831": "a backslash is a slash in http URLs",
	"canon-0836": "a backslash is a slash in http URLs",
	"canon-0840": "a backslash is a slash in http URLs",
	"canon-0845": "a backslash is a slash in http URLs",
	"canon-0854": "a backslash is a slash in http URLs",
}

func href(base, input string) (string, bool) {
	if base == "" {
		u, err := parse(input, nil)
		if err != nil {
			return "", false
		}
		return u.Href(false), true
	}
	b, err := parse(base, nil)
	if err != nil {
		return "", false
	}
	u, err := parse(input, b)
	if err != nil {
		return "", false
	}
	return u.Href(false), true
}
