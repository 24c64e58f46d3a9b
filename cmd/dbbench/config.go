package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
)

// config holds the command line's settings. Its JSON names are those of the flags.
type config struct {
	Benchmarks       []string `json:"benchmarks"`
	Num              int      `json:"num"`
	Reads            int      `json:"reads"`    // -1: the number of keys
	Duration         seconds  `json:"duration"` // 0: run all operations
	Threads          int      `json:"threads"`
	Seed             uint64   `json:"seed"`
	KeySize          int      `json:"key_size"`
	ValueSize        int      `json:"value_size"`
	CompressionRatio float64  `json:"compression_ratio"`
	BatchSize        int      `json:"batch_size"`
	SeekNexts        int      `json:"seek_nexts"`
	storeConfig
	DB            string `json:"db"`
	UseExistingDB bool   `json:"use_existing_db"`
	Keys          string `json:"keys"`
	Absent        string `json:"absent"`
	Histogram     bool   `json:"histogram"`
	outputFiles

	// showcase is set if no flag changes what the default run measures, so its promises are checked.
	showcase bool
}

// storeConfig holds the settings of the store.
type storeConfig struct {
	BloomBits       int    `json:"bloom_bits"` // 0: no filter
	FilterKind      string `json:"filter_kind"`
	CacheSize       int64  `json:"cache_size"` // -1: the default; 0: no cache
	WriteBufferSize int    `json:"write_buffer_size"`
	BlockSize       int    `json:"block_size"`
	MaxFileSize     int64  `json:"max_file_size"`
	OpenFiles       int    `json:"open_files"`
	Compactions     int    `json:"max_background_compactions"`
	Compression     string `json:"compression"`
}

// outputFiles holds the names of files to write; an empty name means that the file is not written.
type outputFiles struct {
	JSON       string `json:"-"`
	SVG        string `json:"-"`
	CPUProfile string `json:"-"`
	MemProfile string `json:"-"`
}

// quietFlags do not change what the default run measures.
var quietFlags = map[string]bool{"json": true, "svg": true, "db": true, "cpuprofile": true, "memprofile": true, "histogram": true}

// flagSet declares the flags of c with their defaults.
func (c *config) flagSet() *flag.FlagSet {
	fs := flag.NewFlagSet("dbbench", flag.ContinueOnError)
	c.Compression, c.Benchmarks = "snappy", nil
	fs.Func("benchmarks", "comma-separated `workloads` to run, in this order; default: the report of disk reads saved", func(s string) error {
		c.Benchmarks = bench.SplitList(s)
		return nil
	})
	fs.IntVar(&c.Num, "num", 1_000_000, "number of `keys` to write; the maximum used from a key file")
	fs.IntVar(&c.Reads, "reads", -1, "`operations` per reading thread; -1: the number of keys")
	fs.Var(&c.Duration, "duration", "run each workload for this many `seconds`, regardless of its number of operations; 0: off")
	fs.IntVar(&c.Threads, "threads", 1, "concurrent `goroutines` per workload, each of which runs all of its operations")
	fs.Uint64Var(&c.Seed, "seed", 301, "random `seed` of keys, values and order")
	fs.IntVar(&c.KeySize, "key_size", 16, "`bytes` per generated key")
	fs.IntVar(&c.ValueSize, "value_size", 100, "`bytes` per generated value")
	fs.Float64Var(&c.CompressionRatio, "compression_ratio", 0.5, "compressed `share` of a generated value's size")
	fs.IntVar(&c.BatchSize, "batch_size", 100, "`keys` per batch in fillbatch")
	fs.IntVar(&c.SeekNexts, "seek_nexts", 0, "`entries` that seekrandom reads after each seek")
	fs.IntVar(&c.BloomBits, "bloom_bits", 10, "filter `bits` per key, of a slot for fuse (default 8); 0: no filters")
	fs.StringVar(&c.FilterKind, "filter_kind", "both",
		"`kind` of filters: cacheline, leveldb, both (lookups use cacheline) or fuse")
	fs.Int64Var(&c.CacheSize, "cache_size", -1,
		"`bytes` of block cache; -1: the store's default, 1 MiB in filterreads; 0: none")
	fs.IntVar(&c.WriteBufferSize, "write_buffer_size", 0, "`bytes` per memtable; 0: the store's default")
	fs.IntVar(&c.BlockSize, "block_size", 0, "`bytes` per data block before compression; 0: the store's default")
	fs.Int64Var(&c.MaxFileSize, "max_file_size", 0, "`bytes` per table that a compaction writes; 0: the store's default")
	fs.IntVar(&c.OpenFiles, "open_files", 0, "maximum number of open `tables`; 0: the store's default")
	fs.IntVar(&c.Compactions, "max_background_compactions", 0, "concurrent compaction `merges`; 0: the store's default")
	fs.StringVar(&c.Compression, "compression", "snappy", "`kind`: none (or 0), snappy (or 1), zstd")
	fs.StringVar(&c.DB, "db", "", "database `folder`, which is kept; default: a temporary one, which is removed")
	fs.BoolVar(&c.UseExistingDB, "use_existing_db", false,
		"use the database in --db as it is; workloads that need an empty one are skipped")
	fs.StringVar(&c.Keys, "keys", "",
		"`file` (plain or .gz) of keys to use instead of generated ones; each line is a key, or a key, a TAB and a value")
	fs.StringVar(&c.Absent, "absent", "", "`file` (plain or .gz) of keys that are not stored, one per line")
	fs.BoolVar(&c.Histogram, "histogram", false, "time each operation and print percentiles")
	fs.StringVar(&c.JSON, "json", "", "write the results to this `file`")
	fs.StringVar(&c.SVG, "svg", "", "write a chart of the report's disk reads to this `file`")
	fs.StringVar(&c.CPUProfile, "cpuprofile", "", "write a CPU profile to this `file`")
	fs.StringVar(&c.MemProfile, "memprofile", "", "write a heap profile, taken at the end, to this `file`")
	return fs
}

// parseConfig parses the command line. If help is requested, it prints that to out and returns
// flag.ErrHelp. It does not print other errors.
func parseConfig(args []string, out io.Writer) (*config, error) {
	c := &config{}
	fs := c.flagSet()
	fs.SetOutput(io.Discard) // flag would print each error too, with the whole help
	fs.Usage = func() {}
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		printHelp(fs, out)
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("%w; see dbbench --help", err)
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; every setting is a flag, see dbbench --help", fs.Arg(0))
	}
	c.showcase = true
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) {
		given[f.Name] = true
		c.showcase = c.showcase && quietFlags[f.Name]
	})
	if c.FilterKind == "fuse" && !given["bloom_bits"] {
		c.BloomBits = filter.FusePolicy{}.SlotBits()
	}
	return c, c.validate()
}

func printHelp(fs *flag.FlagSet, out io.Writer) {
	fmt.Fprint(out, "dbbench measures SieveDB. Without flags it shows how many disk reads filters save on a real word list.\n\nWorkloads for --benchmarks:\n")
	for _, w := range workloads {
		fmt.Fprintf(out, "  %-17s %s\n", w.name, w.about)
	}
	fmt.Fprint(out, "\nFlags:\n")
	fs.SetOutput(out)
	fs.PrintDefaults()
}

// validate returns an error for the first setting that is out of range.
func (c *config) validate() error {
	const anyInt = math.MaxInt32
	ranges := []struct {
		flag      string
		value     int64
		low, high int64
	}{
		{"num", int64(c.Num), 1, anyInt},
		{"reads", int64(c.Reads), -1, anyInt},
		{"threads", int64(c.Threads), 1, 1024},
		{"key_size", int64(c.KeySize), 1, 64 << 10},
		{"value_size", int64(c.ValueSize), 0, 64 << 20},
		{"batch_size", int64(c.BatchSize), 1, 1_000_000},
		{"seek_nexts", int64(c.SeekNexts), 0, anyInt},
		{"bloom_bits", int64(c.BloomBits), 0, filter.MaxBitsPerKey},
		{"cache_size", c.CacheSize, -1, 1 << 50},
		{"write_buffer_size", int64(c.WriteBufferSize), 0, anyInt},
		{"block_size", int64(c.BlockSize), 0, anyInt},
		{"max_file_size", c.MaxFileSize, 0, 1 << 50},
		{"open_files", int64(c.OpenFiles), 0, anyInt},
		{"max_background_compactions", int64(c.Compactions), 0, 64},
	}
	for _, r := range ranges {
		if r.value < r.low || r.value > r.high {
			return fmt.Errorf("--%s is %d; it must be from %d to %d", r.flag, r.value, r.low, r.high)
		}
	}
	if !(c.CompressionRatio > 0 && c.CompressionRatio <= 1) {
		return fmt.Errorf("--compression_ratio is %v; it must be above 0 and at most 1", c.CompressionRatio)
	}
	if c.Reads == 0 {
		return errors.New("--reads is 0; it must be -1 or at least 1")
	}
	if digits := len(strconv.Itoa(c.Num - 1)); c.Keys == "" && digits > c.KeySize {
		return fmt.Errorf("--key_size is %d; %d keys need numbers of %d digits", c.KeySize, c.Num, digits)
	}
	return c.validateNames()
}

// validateNames checks the settings that are not numbers.
func (c *config) validateNames() error {
	if _, ok := compressionKinds[c.Compression]; !ok {
		return fmt.Errorf("--compression is %q; it must be none (or 0), snappy (or 1) or zstd", c.Compression)
	}
	if _, ok := filterKinds[c.FilterKind]; !ok {
		return fmt.Errorf("--filter_kind is %q; it must be cacheline, leveldb, both or fuse", c.FilterKind)
	}
	if c.FilterKind == "fuse" && c.BloomBits > filter.MaxFuseBits {
		return fmt.Errorf("--bloom_bits is %d; with --filter_kind=fuse it must be from 0 to %d, the bits of a slot", c.BloomBits, filter.MaxFuseBits)
	}
	if c.UseExistingDB && c.DB == "" {
		return errors.New("--use_existing_db needs --db, which names the database")
	}
	if c.Absent != "" && c.Keys == "" && !c.UseExistingDB {
		return errors.New("--absent needs --keys: generated keys may include any of its keys")
	}
	for _, name := range c.Benchmarks {
		w, ok := findWorkload(name)
		if !ok {
			return fmt.Errorf("--benchmarks has unknown workload %q; want one of: %s", name, workloadNames())
		}
		if w.needsFilter && c.BloomBits == 0 {
			return fmt.Errorf("%s compares lookups with and without filters, so --bloom_bits must not be 0", name)
		}
	}
	if c.SVG != "" && len(c.Benchmarks) > 0 && !slices.Contains(c.Benchmarks, reportName) {
		return fmt.Errorf("--svg is for %s, which --benchmarks does not name; add it there", reportName)
	}
	if len(c.Benchmarks) == 0 && c.BloomBits == 0 {
		return errors.New("the report compares lookups with and without filters, so --bloom_bits must not be 0")
	}
	// The store validates its own options; do that before anything is measured.
	return c.options().Validate()
}

var compressionKinds = map[string]db.Compression{
	"none": db.NoCompression, "0": db.NoCompression,
	"snappy": db.SnappyCompression, "1": db.SnappyCompression,
	"zstd": db.ZstdCompression,
}

// options converts the settings to the store's options. The session sets FS.
func (c *storeConfig) options() *db.Options {
	o := &db.Options{
		Filters:   db.FilterOptions{Policy: filter.None},
		Memtables: db.MemtableOptions{Size: c.WriteBufferSize},
		Tables: db.TableOptions{
			BlockSize:   c.BlockSize,
			Size:        c.MaxFileSize,
			Compression: compressionKinds[c.Compression],
		},
		Cache: db.CacheOptions{MaxOpenFiles: c.OpenFiles, Size: cacheOption(c.CacheSize)},

		Compaction: db.CompactionOptions{MaxConcurrent: c.Compactions},
	}
	if c.BloomBits > 0 {
		o.Filters.Policy = c.filter()
	}
	return o
}

// filterKinds are the values of --filter_kind.
var filterKinds = map[string]func(bitsPerKey int) filter.Policy{
	"cacheline": func(b int) filter.Policy { return filter.NewCacheLineBloomPolicy(b) },
	"leveldb":   func(b int) filter.Policy { return filter.NewBloomPolicy(b) },
	"both":      func(b int) filter.Policy { return filter.NewDualBloomPolicy(b) },
	"fuse":      func(b int) filter.Policy { return filter.NewFusePolicy(b) },
}

func (c *storeConfig) filter() filter.Policy { return filterKinds[c.FilterKind](c.BloomBits) }

// cacheOption converts --cache_size, in which 0 means no cache as in db_bench, to
// Options.Cache.Size, in which 0 means the default.
func cacheOption(flagValue int64) int64 {
	switch {
	case flagValue < 0:
		return 0
	case flagValue == 0:
		return -1
	}
	return flagValue
}

// seconds is a duration, written as a number of seconds as in db_bench, or as in Go (90s, 2m).
type seconds time.Duration

func (s *seconds) String() string { return time.Duration(*s).String() }

func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if number, numErr := strconv.ParseFloat(text, 64); numErr == nil {
		d, err = time.Duration(number*float64(time.Second)), nil
	}
	if err != nil || d < 0 || d > 1000*time.Hour {
		return errors.New("want a number of seconds, or a duration such as 90s or 2m, of at most 1000h")
	}
	*s = seconds(d)
	return nil
}

// MarshalJSON returns the number of seconds.
func (s seconds) MarshalJSON() ([]byte, error) {
	return []byte(strconv.FormatFloat(time.Duration(s).Seconds(), 'g', -1, 64)), nil
}
