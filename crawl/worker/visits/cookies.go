package visits

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
)

// maxCookieBytes bounds the cookies of a host in a request, maxStoredCookies the Set-Cookie fields
// of the cookies that are stored of it: beyond that all cookies are dropped.
const (
	maxCookieBytes   = 16 << 10
	maxStoredCookies = 4 * maxCookieBytes
)

// cookies are those that a host has set during its lease. Name and value are sent back unchanged,
// as browsers do, even where RFC 6265 does not allow them: the jar stores them in hexadecimal.
type cookies struct {
	jar   *cookiejar.Jar
	sizes map[string]int // of the Set-Cookie field of each cookie, in bytes
	bytes int            // sum of the sizes
}

// of returns the cookies to send with a request for u, as its Cookie field has them.
func (cs *cookies) of(u *url.URL) (fields []string) {
	if cs.jar == nil {
		return nil
	}
	size := 0
	for _, c := range cs.jar.Cookies(u) {
		field, _ := hex.DecodeString(c.Value)
		if size += len(field); size > maxCookieBytes {
			break
		}
		fields = append(fields, string(field))
	}
	return fields
}

// store adds the cookies of an answer to a request for u.
func (cs *cookies) store(u *url.URL, header http.Header) {
	for _, line := range header["Set-Cookie"] {
		pair, attributes, _ := strings.Cut(line, ";")
		name, value, named := strings.Cut(pair, "=")
		field := strings.TrimSpace(pair)
		if name = strings.TrimSpace(name); !named {
			name = ""
		} else if field = strings.TrimSpace(value); name != "" {
			field = name + "=" + field
		}
		if field == "" || len(line) > maxStoredCookies || !httpguts.ValidHeaderFieldValue(field) {
			continue
		}
		c, err := http.ParseSetCookie(fmt.Sprintf("c%x=%x;%s", name, field, attributes))
		if err != nil {
			continue
		}
		id := c.Name + ";" + c.Domain + ";" + c.Path
		if cs.bytes += len(line) - cs.sizes[id]; cs.jar == nil || cs.bytes > maxStoredCookies {
			cs.sizes, cs.bytes = make(map[string]int), len(line)
			cs.jar, _ = cookiejar.New(nil) // never fails
		}
		cs.sizes[id] = len(line)
		cs.jar.SetCookies(u, []*http.Cookie{c})
	}
}

// CookieField returns the Cookie field of a request for a URL of the visit's host; empty without
// cookies.
func (v *Visit) CookieField(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil || v.cfg.NoCookies {
		return ""
	}
	return strings.Join(v.host.cookies.of(u), "; ")
}

// StoreCookies stores the cookies of an answer to a request for a URL of the visit's host. It
// reports whether the answer is a redirect that hides the page until its cookie is sent: it set a
// cookie of a new name, or it set one and leads back to the URL.
func (v *Visit) StoreCookies(rawURL string, resp *fetch.Response) (hides bool) {
	u, err := url.Parse(rawURL)
	if err != nil || v.cfg.NoCookies || len(resp.Header["Set-Cookie"]) == 0 {
		return false
	}
	before := v.host.cookies.of(u)
	v.host.cookies.store(u, resp.Header)
	if resp.Location() == "" {
		return false
	}
	name := func(field string) string { name, _, _ := strings.Cut(field, "="); return name }
	back := leadsBack(rawURL, resp.Location())
	return slices.ContainsFunc(v.host.cookies.of(u), func(field string) bool {
		return !slices.ContainsFunc(before, func(b string) bool { return b == field || !back && name(b) == name(field) })
	})
}

// Again returns the result of a visit whose URL is requested once more, with the cookie that its
// redirect has set; nil if that was done.
func (v *Visit) Again(resp *fetch.Response, took time.Duration) Result {
	if v.Item.Repeated {
		return nil
	}
	v.Item.Repeated = true
	return again{took: took, addr: resp.Addr.Addr(), connect: resp.Connect}
}

// leadsBack reports whether a redirect of page leads to page itself, or to a URL that has page as
// the value of a query parameter.
func leadsBack(page, location string) bool {
	base, err := link.NewBase(page)
	if err != nil {
		return false
	}
	is := func(ref string) bool {
		target, err := base.AppendResolve(nil, []byte(ref))
		return err == nil && string(target) == page
	}
	if is(location) {
		return true
	}
	_, query, _ := strings.Cut(location, "?")
	for pair := range strings.SplitSeq(query, "&") {
		_, value, _ := strings.Cut(pair, "=")
		if value, err := url.QueryUnescape(value); err == nil && value != "" && is(value) {
			return true
		}
	}
	return false
}
