// Package rangefilter creates and queries range filters: small summaries of a set of keys that
// answer "is any key in this range?" with "no", which is certain, or "perhaps". A filter of
// package [github.com/sievedb/sievedb/filter] answers for a single key only.
//
// An iterator with both bounds queries the range filters of each table, and skips tables that
// have no key between its bounds. A [Policy] makes and reads such filters: [Prefix] for ranges
// within one key prefix, which an [Extractor] defines, and [Grafite] for short ranges of a
// [Number] after the prefix. [PolicyNamed] finds the policy of a filter by its name.
//
// Policies are values without state. All methods of a policy and of a [Probe] are safe for
// concurrent use. A [Generator] must not be used concurrently. Keys are ordered bytewise; with
// a comparer of another order the answers would be wrong.
//
// The comments at the top of prefix.go and grafite.go describe the bytes of the filters.
package rangefilter
