package main

import "strings"

// goTerms are what errors and reports of the packages call things in Go, with the words of the tool for them.
var goTerms = strings.NewReplacer(
	"; Options.Salvage opens the database with the readable records", "",
	", and Options.Salvage opens the database without the table", "",
	", or set Options.Salvage to open the database without them", "",
	"copy the database, for example by DB.Checkpoint, and continue from the position of the copy; Options.Changes says how much is kept",
	"copy the database with 'sievedb checkpoint', and continue from the position of the copy; the program that has the database says how much is kept",
	"keep at least one with KeepLast, KeepDaily or KeepWeekly", "keep at least one with --keep-last, --keep-daily or --keep-weekly",
	"the key is under none of Options.Expiry.Prefixes, so its value has no place for a time to live; add a prefix, or use Put. With Options.Expiry.Raw there are no prefixes: open without it",
	"the key is under no prefix whose values may expire; name its prefix with --expiry, or leave out --ttl",
	"open it for writing once with the Options.Expiry.Prefixes and Namespaces of its values; they are then recorded",
	"open it for writing once with --expiry and the prefixes of its values; they are then recorded",
	"Options.Expiry asks for", "--expiry asks for", "the prefixes of Options.Expiry", "the prefixes of --expiry",
	"the key is under Options.Expiry.Prefixes, but its value was written by another program, or with Options.Expiry.Raw; read it with Raw, and Put or Delete the key without Raw",
	"the key is under a prefix whose values may expire, but its value was written by another program; put or delete the key",
	"Repair can rebuild it", "'sievedb repair' can rebuild it", "Repair can rebuild the MANIFEST", "'sievedb repair' can rebuild the MANIFEST",
	"run Check, and Repair if it reports faults", "run 'check', and 'repair' if it reports faults",
	"UpgradeFilters writes it again", "'upgrade-filters' writes it again", "run UpgradeFilters", "run 'upgrade-filters'",
	"open with filter.None and run Compact, which rewrites all tables", "compact the database, which rewrites all tables",
	"set Options.Filters.Policy to the policy of that name, or", "use a program with the policy of that name, or",
	"(filter.None, or a budget without bits for the level)", "(no filters, or a budget without bits for the level)",
	"a larger Filters.Budget", "a larger filter budget",
	"use filter.NewCacheLineBloomPolicy, filter.NewDualBloomPolicy or filter.FusePolicy, whose hash has 64 bits", "use --filter cacheline, both or fuse, whose hash has 64 bits",
	"run Check: the filter may belong to other keys; Compact writes it again", "run 'check': the filter may belong to other keys; 'compact' writes it again",
	"set Options.Filters.Policy to use filters", "the program that has the database uses no filters",
	"set Options.Filters.RangePolicies to the policy of that name (sievedb: -ranges NAME) to use the filter; Compact writes tables without it",
	"--ranges with that name uses the filter; 'compact' without it writes tables without the filter",
	"or remove Options.Filters.RangePolicies: iterators", "or use no range filters: iterators", "(LowerBound and UpperBound) ", "",
	"Options.LogDir", "the directory of the logs", "raise it if you trust the file", "a program can raise that limit",
	"set Options.Comparer to a comparer of that name", "a program with a comparer of that name can read it",
	"Options.Comparer", "the comparer", "Options.Limits.ManifestRead", "the limit",
	"opening a database for writing needs some space; Options.ReadOnly opens it without", "opening a database for writing needs some space; verbs that only read need none",
	"or open the database with Options.ReadOnly", "or use a verb that only reads",
)

// inVerbs returns a text of a package in the words of the tool.
func inVerbs(text string) string { return goTerms.Replace(text) }
