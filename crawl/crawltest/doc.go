// Package crawltest holds what the tests of the crawl's packages share: a store in memory that can crash.
package crawltest
