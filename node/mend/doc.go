// Package mend says what is damaged in the data directory of a peer that does not run, and mends
// what can be: the database, the records in it against each other, the archive against its indexes
// and against the records, and what lies beside.
//
// # Words
//
// A finding is one thing that is wrong: what was found, and what it means for the crawl. A note is
// a finding that may be as it should, as a crash leaves it. A page is lost if the records say that
// it was archived here and no archive file holds it. The archive is ahead of the records where it
// holds pages of which they say nothing: a few after a crash, which are fetched again; many if the
// end of the database's log is gone.
//
// # How it is mended
//
// Nothing is mended in place. What can be read of the records goes into a new database, counted
// anew; pages of the archive that the records have forgotten get their outcomes back, and the links
// of archived pages are admitted once more, so that whatever they lead to waits again if nothing is
// known of it; a page that is lost waits again. Files of the archive are written anew without what
// cannot be read. Then the new takes the place of the old, which stays in damaged-TIME until a
// person removes it. Where identity and jobs are lost as well, another peer is made, and one job of
// the seeds that the archive names, to which its pages belong. A repair that was interrupted is
// done again, or finished if it had come so far.
//
// # What cannot be told
//
// A log that ends at a record, and an archive file that ends at one, are what a younger peer would
// have left. What was cut off shows only by what speaks of it: pages in the archive without an
// outcome, or outcomes whose pages are not in the archive.
package mend
