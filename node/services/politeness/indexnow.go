package politeness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/node/loop"
)

// indexNow accepts notices of changed pages by the IndexNow protocol (indexnow.org): GET with url
// and key, or POST with a JSON list. The site proves itself by a file with the key.
type indexNow struct {
	get     Get
	signal  func(ctx context.Context, m *wire.Again) error // sends notices to the owner of the host
	proofs  *loop.Paces                                    // by host
	optOuts interface {
		Host(host string) (why string)
	}
}

// newIndexNow returns the handler.
func newIndexNow(get Get, optOuts interface {
	Host(host string) (why string)
}, signal func(ctx context.Context, m *wire.Again) error,
) *indexNow {
	return &indexNow{get: get, optOuts: optOuts, signal: signal, proofs: loop.NewPaces(noticesPerSecond, noticesAtOnce, loop.MaxPeers)}
}

// notice is the body of a POST.
type notice struct {
	Host        string   `json:"host"`
	Key         string   `json:"key"`
	KeyLocation string   `json:"keyLocation"`
	URLs        []string `json:"urlList"`
}

const (
	// The key file of a host is read once in ten seconds.
	noticesPerSecond, noticesAtOnce = 0.1, 1

	maxNotice  = 1 << 20
	noticeTime = 20 * time.Second
)

var keyForm = regexp.MustCompile(`^[A-Za-z0-9-]{8,128}$`)

// ServeHTTP implements http.Handler, with the status codes of the protocol.
func (n *indexNow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), noticeTime)
	defer cancel()
	q := r.URL.Query()
	ask := notice{Key: q.Get("key"), KeyLocation: q.Get("keyLocation"), URLs: []string{q.Get("url")}}
	if r.Method == http.MethodPost {
		ask = notice{}
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxNotice)).Decode(&ask); err != nil {
			http.Error(w, "the body is no JSON with host, key and urlList: "+err.Error(), http.StatusBadRequest)
			return
		}
	} else if r.Method != http.MethodGet {
		http.Error(w, "GET or POST", http.StatusMethodNotAllowed)
		return
	}
	if status, err := n.take(ctx, &ask); err != nil {
		http.Error(w, err.Error(), status)
	}
}

// take checks a notice, and passes it on.
func (n *indexNow) take(ctx context.Context, ask *notice) (status int, err error) {
	if !keyForm.MatchString(ask.Key) || len(ask.URLs) == 0 || len(ask.URLs) > wire.MaxChanged {
		return http.StatusBadRequest, fmt.Errorf("want a key of 8 to 128 letters, digits and hyphens, and 1 to %d URLs, not %d", wire.MaxChanged, len(ask.URLs))
	}
	m := &wire.Again{IndexNow: true, AtS: uint32(time.Now().Unix())} //nolint:gosec // until 2106
	for _, raw := range ask.URLs {
		url, err := link.Canonical(raw)
		host := link.Host(url)
		if err != nil || m.Host != "" && host != m.Host || ask.Host != "" && !strings.EqualFold(ask.Host, host) {
			return http.StatusUnprocessableEntity, fmt.Errorf("URL %.200q is invalid, or of another host", raw)
		}
		m.Host, m.Url = host, append(m.Url, []byte(url))
	}
	scheme, _, _ := strings.Cut(string(m.GetUrl()[0]), "://")
	root := scheme + "://" + m.GetHost() + "/"
	location := root + ask.Key + ".txt"
	if ask.KeyLocation != "" {
		if location, err = link.Canonical(ask.KeyLocation); err != nil || link.Host(location) != m.GetHost() {
			return http.StatusUnprocessableEntity, fmt.Errorf("keyLocation %.200q is invalid, or of another host", ask.KeyLocation)
		}
		root = location[:strings.LastIndexByte(location, '/')+1] // a key is valid for its directory
	}
	for _, url := range m.GetUrl() {
		if !strings.HasPrefix(string(url), root) {
			return http.StatusUnprocessableEntity, fmt.Errorf("URL %.200q is not below %s, as the key is", url, root)
		}
	}
	if why := n.optOuts.Host(m.GetHost()); why != "" {
		return http.StatusForbidden, errors.New(why)
	}
	if !n.proofs.Allow(time.Now(), m.GetHost(), 1) {
		return http.StatusTooManyRequests, errors.New("too many notices for the host: one in ten seconds, retry later")
	}
	resp, err := n.get(ctx, &fetch.Request{URL: location, MaxBytes: maxKeyFile, Cut: true, Accept: "text/plain,*/*;q=0.1"})
	if err != nil {
		return http.StatusForbidden, fmt.Errorf("key file: %w", err)
	}
	defer resp.Release()
	if resp.Status != http.StatusOK || strings.TrimSpace(string(resp.Body)) != ask.Key {
		return http.StatusForbidden, fmt.Errorf("%s does not have the key (status %d)", location, resp.Status)
	}
	if err := n.signal(ctx, m); err != nil {
		return http.StatusServiceUnavailable, err
	}
	return http.StatusOK, nil
}

// maxKeyFile bounds the bytes of a file with a key.
const maxKeyFile = 256
