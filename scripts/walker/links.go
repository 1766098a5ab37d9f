package main

import (
	"bytes"
	"net/url"
	"regexp"
	"strings"

	"golang.org/x/net/html"
)

// canonical returns the one spelling of a URL and its host, or "" if it is not to be crawled.
func canonical(u *url.URL) (key, host string) {
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", ""
	}
	host = strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if port := u.Port(); port != "" && !(u.Scheme == "http" && port == "80") && !(u.Scheme == "https" && port == "443") {
		host += ":" + port
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	key = u.Scheme + "://" + host + escapes(path)
	if u.RawQuery != "" || u.ForceQuery {
		key += "?" + escapes(u.RawQuery)
	}
	return key, host
}

var (
	escape     = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	unreserved = regexp.MustCompile(`^[A-Za-z0-9._~-]$`)
)

// escapes unescapes unreserved characters and writes all other escapes in upper case (RFC 3986,
// section 6.2.2).
func escapes(s string) string {
	return escape.ReplaceAllStringFunc(s, func(e string) string {
		if c, err := url.PathUnescape(e); err == nil && unreserved.MatchString(c) {
			return c
		}
		return strings.ToUpper(e)
	})
}

// requisites are the relations of link elements that a page needs to be shown; they are not pages.
var requisites = []string{"stylesheet", "icon", "apple-touch-icon", "mask-icon", "preload", "modulepreload", "prefetch", "manifest", "dns-prefetch", "preconnect"}

// links returns what a page links to, resolved; nothing if it says nofollow.
func links(page *url.URL, body []byte) []*url.URL {
	doc, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	base := page
	var found []*url.URL
	var hrefs []string
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		attr := map[string]string{}
		for _, a := range n.Attr {
			attr[a.Key] = a.Val
		}
		href, linked := attr["href"]
		rel := []string{attr["rel"]}
		switch n.Data {
		case "base":
			if b, err := page.Parse(strings.TrimSpace(href)); linked && base == page && err == nil {
				base = b
			}
		case "a", "area":
			if linked && !hasToken(rel, "nofollow") {
				hrefs = append(hrefs, href)
			}
		case "link":
			follow := linked && !hasToken(rel, "nofollow")
			for _, r := range requisites {
				follow = follow && !hasToken(rel, r)
			}
			if follow {
				hrefs = append(hrefs, href)
			}
		case "iframe", "frame":
			if src, ok := attr["src"]; ok {
				hrefs = append(hrefs, src)
			}
		case "meta":
			if name := strings.ToLower(attr["name"]); name == "robots" && hasToken([]string{attr["content"]}, "nofollow") {
				return nil
			}
			if strings.EqualFold(attr["http-equiv"], "refresh") {
				if i := strings.Index(strings.ToLower(attr["content"]), "url="); i >= 0 {
					hrefs = append(hrefs, strings.Trim(attr["content"][i+len("url="):], " '\""))
				}
			}
		}
	}
	for _, href := range hrefs {
		href = strings.TrimSpace(href)
		href, _, _ = strings.Cut(href, "#")
		if u, err := base.Parse(href); err == nil {
			found = append(found, u)
		}
	}
	return found
}

// hasToken reports whether one of the values, lists split by commas and spaces, holds the token.
func hasToken(values []string, token string) bool {
	for _, v := range values {
		for _, f := range strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' }) {
			if strings.EqualFold(f, token) {
				return true
			}
		}
	}
	return false
}
