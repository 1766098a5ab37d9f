package extract

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apoidea/apoidea/crawl/link"
)

// readShared reads a JSON file of the test data that lies beside the repository, or skips the test.
func readShared(t *testing.T, name string, into any) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "shared", "testdata", name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Skip("shared test data not found: " + name)
}

func TestSharedLinks(t *testing.T) {
	var data struct {
		Cases []struct {
			ID, URL, Body, Why    string
			ContentType           string `json:"content_type"`
			Base64                []byte `json:"body_b64"`
			Must, Nofollow, Embed []string
			Optional, Either      []string
			MustNot               []string `json:"must_not"`
		}
	}
	readShared(t, "html/links.json", &data)
	var x Extractor
	var page Page
	for _, tc := range data.Cases {
		body := tc.Base64
		if body == nil {
			body = []byte(tc.Body)
		}
		if err := x.HTML(&page, tc.URL, tc.ContentType, body, Options{Requisites: true, Agent: "apoidea"}); err != nil {
			t.Errorf("%s: %v", tc.ID, err)
			continue
		}
		var links, requisites []string
		for _, l := range page.Links {
			if l.Kind == link.KindRequisite {
				requisites = append(requisites, l.URL)
				continue
			}
			links = append(links, l.URL)
			if l.Nofollow != slices.Contains(tc.Nofollow, l.URL) {
				t.Errorf("%s (%s): nofollow of %s is %v", tc.ID, tc.Why, l.URL, l.Nofollow)
			}
			if !slices.Contains(slices.Concat(tc.Must, tc.Nofollow, tc.Embed, tc.Optional, tc.Either), l.URL) {
				t.Errorf("%s (%s): found %s", tc.ID, tc.Why, l.URL)
			}
		}
		for _, url := range slices.Concat(tc.Must, tc.Nofollow) {
			if !slices.Contains(links, url) {
				t.Errorf("%s (%s): %s not in %v", tc.ID, tc.Why, url, links)
			}
		}
		for _, url := range tc.MustNot {
			if slices.Contains(links, url) {
				t.Errorf("%s (%s): %s was found", tc.ID, tc.Why, url)
			}
		}
		for _, url := range tc.Embed {
			if !slices.Contains(requisites, url) {
				t.Errorf("%s (%s): %s not in %v", tc.ID, tc.Why, url, requisites)
			}
		}
	}
}

func TestSharedEncoding(t *testing.T) {
	var data struct {
		Cases []struct {
			ID, Encoding string
			Body         []byte `json:"body_b64"`
		}
	}
	readShared(t, "html/encoding.json", &data)
	var x Extractor
	var page Page
	right := 0
	for _, tc := range data.Cases {
		if err := x.HTML(&page, "https://a.example/", "", tc.Body, Options{}); err != nil {
			t.Fatal(err)
		}
		if x.walk.charset.name == tc.Encoding {
			right++
		} else {
			t.Errorf("%s: got %s, want %s", tc.ID, x.walk.charset.name, tc.Encoding)
		}
	}
	t.Logf("%d of %d", right, len(data.Cases))
}
