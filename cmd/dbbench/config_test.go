package main

import (
	"bytes"
	"flag"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
)

func TestFlagsHaveTheirDefaults(t *testing.T) {
	c, err := parseConfig(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, &config{
		Num: 1_000_000, Reads: -1, Threads: 1, Seed: 301, KeySize: 16, ValueSize: 100, CompressionRatio: 0.5,
		BatchSize: 100, showcase: true,
		storeConfig: storeConfig{BloomBits: 10, FilterKind: "both", CacheSize: -1, Compression: "snappy"},
	}, c)
}

func TestFlagsMayBeWrittenAsInDbBench(t *testing.T) {
	c, err := parseConfig([]string{
		"--benchmarks=fillseq, readrandom,,stats", "-num=5000", "--histogram=1", "--duration=90", "--compression=0",
		"--bloom_bits", "12", "--cache_size=0", "--use_existing_db=0",
	}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []string{"fillseq", "readrandom", "stats"}, c.Benchmarks)
	require.Equal(t, 5000, c.Num)
	require.True(t, c.Histogram)
	require.Equal(t, seconds(90*time.Second), c.Duration)
	require.Equal(t, 12, c.BloomBits)
	require.EqualValues(t, -1, c.options().Cache.Size, "no cache is 0 on the command line and negative in Options")
	require.False(t, c.showcase)
}

func TestFuseFiltersHaveTheirBitsOfASlot(t *testing.T) {
	for args, want := range map[string]filter.Policy{
		"":                filter.FusePolicy{},
		"--bloom_bits=8":  filter.FusePolicy{},
		"--bloom_bits=7":  filter.NewFusePolicy(7),
		"--bloom_bits=16": filter.NewFusePolicy(16),
		"--bloom_bits=0":  filter.None,
	} {
		c, err := parseConfig(append([]string{"--filter_kind=fuse", "--benchmarks=fillseq"}, strings.Fields(args)...), io.Discard)
		require.NoError(t, err)
		require.Equal(t, want, c.options().Filters.Policy, args)
	}
}

func TestFlagsThatChangeTheReportDropItsPromises(t *testing.T) {
	for args, want := range map[string]bool{"--json=x": true, "--svg=x": true, "--histogram": true, "--bloom_bits=10": false, "--num=10": false} {
		c, err := parseConfig([]string{args}, io.Discard)
		require.NoError(t, err)
		require.Equal(t, want, c.showcase, args)
	}
}

func TestWrongFlagsAreExplained(t *testing.T) {
	tests := []struct{ name, args, want string }{
		{"an unknown workload lists those that exist", "--benchmarks=fillseq,nope", `--benchmarks has unknown workload "nope"; want one of: fillseq, fillrandom, fillsync`},
		{"an unknown flag", "--nope", "flag provided but not defined: -nope; see dbbench --help"},
		{"an argument that is no flag", "nope", `unexpected argument "nope"`},
		{"a number out of range", "--num=0", "--num is 0; it must be from 1 to 2147483647"},
		{"no number", "--num=many", `invalid value "many" for flag -num`},
		{"reads of zero", "--reads=0", "--reads is 0; it must be -1 or at least 1"},
		{"a ratio out of range", "--compression_ratio=1.5", "it must be above 0 and at most 1"},
		{"a ratio that is no number", "--compression_ratio=NaN", "it must be above 0 and at most 1"},
		{"too many bits", "--bloom_bits=101", "it must be from 0 to 100"},
		{"an unknown kind of filter", "--filter_kind=cuckoo", `--filter_kind is "cuckoo"; it must be cacheline, leveldb, both or fuse`},
		{"too many bits of a slot", "--filter_kind=fuse --bloom_bits=17", "--bloom_bits is 17; with --filter_kind=fuse it must be from 0 to 16"},
		{"a report without filters", "--bloom_bits=0", "--bloom_bits must not be 0"},
		{"an unknown compression lists the kinds", "--compression=lz4", "it must be none (or 0), snappy (or 1) or zstd"},
		{"keys too short for their numbers", "--key_size=5", "--key_size is 5; 1000000 keys need numbers of 6 digits"},
		{"an existing database without its name", "--use_existing_db", "--use_existing_db needs --db"},
		{"absent keys without stored ones", "--absent=x", "--absent needs --keys"},
		{"a bad duration", "--duration=-1", "want a number of seconds"},
		{"an option that the store refuses", "--write_buffer_size=1", "Options.Memtables.Size is 1; it must be from 4096"},
		{"a chart of no report", "--benchmarks=fillseq --svg=x.svg", "--svg is for filterreads, which --benchmarks does not name; add it there"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, exitUsage, run(t.Context(), strings.Fields(tt.args), &stdout, &stderr))
			require.Empty(t, stdout.String())
			require.Regexp(t, "^dbbench: .*"+regexp.QuoteMeta(tt.want), stderr.String())
		})
	}
}

func TestHelpListsWorkloadsAndFlags(t *testing.T) {
	var out bytes.Buffer
	_, err := parseConfig([]string{"--help"}, &out)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, w := range workloads {
		require.Contains(t, out.String(), "  "+w.name+" ")
	}
	(&config{}).flagSet().VisitAll(func(f *flag.Flag) { require.Contains(t, out.String(), "\n  -"+f.Name) })
}
