// Package robots reads robots.txt after RFC 9309: which rules speak to this crawler, whether they
// admit a URL, and what follows when the file cannot be had.
//
// Words: a *group* is a run of User-agent lines and the rules beneath it; a *rule* allows or
// disallows what a *pattern* matches; the *rules in force* are those of all groups that name the
// crawler's product token, or else of all groups for `*`. A *State* is what one fetch of robots.txt
// came to: it is kept with the host's record and travels with its lease.
//
// A body is parsed once into the rules in force and asked many times. A verdict is the longest
// matching pattern's, Allow winning a tie; nothing matching means allowed, and /robots.txt itself
// is always allowed.
//
// Both sides are brought to one form before they are compared (section 2.2.2): hex digits in upper
// case, unreserved octets decoded, octets outside the URL alphabet encoded. A `*` or `$` in a URL
// is a letter like any other and equals %2A or %24 in a pattern.
//
// Choices where the RFC is silent or readers disagree:
//
//   - Tolerated, as Google's parser does: a missing colon between two words, common misspellings of
//     the field names, anything after the product token ("ExampleBot/2.0" names ExampleBot), a
//     partial byte order mark, "Allow: /x/index.html" admitting /x/ too.
//   - A product token is letters, digits, hyphen and underscore. RFC 9309 has no digits, but
//     crawlers with digits in their names exist, and rules for XYZ123bot are not meant for XYZ.
//     Other bytes end the token: "bot*" names bot, as those who write it mean.
//   - Tokens are compared whole, ignoring case: a group for "Google" does not speak to Googlebot.
//   - A pattern that begins with neither `/` nor `*` matches nothing: the grammar of section 2.2
//     does not have it, and guessing at a slash would also widen what a typing error allows.
//   - A percent-encoded unreserved octet equals the plain one on both sides, as the table of
//     section 2.2.2 says (Google compares literally).
//   - Field and value stand on one line.
//   - A line cut by our bound on the body is dropped: cut short, a pattern means more than was
//     written. A pattern that is longer than our bound on patterns is cut if it disallows, since no
//     part of a site may be crawled because it was described at length, and admits nothing if it
//     allows.
//   - UTF-16 is read where a byte order mark, or every other byte being zero, tells it.
//   - Crawl-delay, which the RFC does not know, is taken from the groups in force; the largest
//     counts. User-agent lines behind it open a new group for delays, but not for rules. Sitemap
//     lines belong to no group.
//
// Nothing here has a goroutine, a clock or a lock. Rules are immutable and may be asked from many
// goroutines.
package robots
