// Package robots implements robots.txt (RFC 9309): which rules apply to this crawler, whether they
// allow a URL, and what follows when the file is unavailable.
//
// Terms: a *group* is a run of User-agent lines and the rules beneath it; a *rule* allows or
// disallows what a *pattern* matches; the *rules in force* are those of all groups that name the
// crawler's product token, or else of all groups for `*`. A *State* is the result of the fetches of
// one robots.txt: workers keep it with the body, and owners store it without.
//
// A body is parsed once into the rules in force, which are then evaluated many times. The longest
// matching pattern decides, Allow winning a tie; without a match the URL is allowed, and
// /robots.txt itself is always allowed.
//
// Both sides are normalized before they are compared (section 2.2.2): hex digits in upper case,
// unreserved octets decoded, octets outside the URL alphabet encoded. A `*` or `$` in a URL is an
// ordinary character and equals %2A or %24 in a pattern.
//
// Choices where the RFC is silent or parsers disagree:
//
//   - Tolerated, as Google's parser does: a missing colon between two words, common misspellings of
//     the field names, anything after the product token ("ExampleBot/2.0" names ExampleBot), a
//     partial byte order mark, "Allow: /x/index.html" allowing /x/ too.
//   - A product token is letters, digits, hyphen and underscore. RFC 9309 has no digits, but
//     crawlers with digits in their names exist, and rules for XYZ123bot are not meant for XYZ.
//     Other bytes end the token: "bot*" names bot, as its authors intend.
//   - Tokens are compared whole, ignoring case: a group for "Google" does not apply to Googlebot.
//   - A pattern that begins with neither `/` nor `*` matches nothing: the grammar of section 2.2
//     does not have it, and adding a slash would also extend the effect of a typing error.
//   - A percent-encoded unreserved octet equals the plain one on both sides, as in the table of
//     section 2.2.2 (Google compares literally).
//   - Field and value stand on one line.
//   - A line cut by MaxBody is dropped: a truncated pattern matches more than was written. A
//     pattern longer than maxPattern is truncated if it disallows, since no part of a site may be
//     crawled because its pattern is long, and matches nothing if it allows.
//   - UTF-16 is detected by a byte order mark, or by every other byte being zero.
//   - Crawl-delay, which is not in the RFC, is taken from the groups in force; the largest counts.
//     User-agent lines after it open a new group for delays, but not for rules. Sitemap lines
//     belong to no group.
//
// Nothing here has a goroutine, a clock or a lock. Rules are immutable and safe for concurrent use.
package robots
