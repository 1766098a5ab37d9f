// Package experiment lists the experiments: the papers' own, done again, and those that show what
// this system promises.
//
// Each paper has a room below: apoidea, bandwidth, coordinates and ipmicra; so have churn, and
// placement, which holds all strategies against each other. An experiment is a [trial.Experiment]:
// a name, a line about it, and a function that fills a report with the rows of a table and with
// charts. [trial.Run] runs one and writes a directory: table.json, table.csv, run.json and an SVG
// for each chart. The same options give the same table and the same charts, byte for byte; only
// run.json knows when it was.
//
// Files appear whole or not at all, also when the run is interrupted: each is written beside its
// place and then renamed.
package experiment
