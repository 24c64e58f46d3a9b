package db_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/sievedb/sievedb"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter/rangefilter"
	"github.com/sievedb/sievedb/vfs"
)

// The quickstart of README.md, line for line.
func Example() {
	dir, err := os.MkdirTemp("", "quickstart")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	store, err := db.Open(dir, nil) // creates the database if it does not exist
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	// By default, a write is durable when it returns.
	if err := store.Put([]byte("spider"), []byte("8 legs"), nil); err != nil {
		log.Fatal(err)
	}
	value, err := store.Get([]byte("spider"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("a spider has %s\n", value)

	if _, err := store.Get([]byte("unicorn")); errors.Is(err, db.ErrNotFound) {
		fmt.Println("there is no unicorn")
	}
	// Output:
	// a spider has 8 legs
	// there is no unicorn
}

// The code in the package comment, line for line.
func Example_use() {
	dir, err := os.MkdirTemp("", "use")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	store, err := db.Open(dir, nil) // creates the database if there is none
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	if err := store.Put([]byte("ant"), []byte("6 legs"), nil); err != nil {
		log.Fatal(err)
	}
	value, err := store.Get([]byte("ant"))
	if errors.Is(err, db.ErrNotFound) {
		fmt.Println("there is no ant")
	} else if err != nil {
		log.Fatal(err)
	} else {
		fmt.Printf("an ant has %s\n", value)
	}
	// Output:
	// an ant has 6 legs
}

// openMem opens a database in memory, for the examples.
func openMem() *db.DB {
	store, err := db.Open("example", &db.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	return store
}

// must ends an example that failed.
func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The writes of a batch become visible and durable together. A later write wins over an earlier one.
func ExampleDB_Apply() {
	store := openMem()
	defer store.Close()
	var b db.Batch
	b.Put([]byte("alice"), []byte("70"))
	b.Put([]byte("bob"), []byte("30"))
	b.Put([]byte("alice"), []byte("60"))
	must(store.Apply(&b, nil))
	for _, name := range []string{"alice", "bob"} {
		value, err := store.Get([]byte(name))
		fmt.Printf("%s %s %v\n", name, value, err)
	}
	b.Reset() // and the batch's memory is used again
	fmt.Println(b.Len(), "writes in it")
	// Output:
	// alice 60 <nil>
	// bob 30 <nil>
	// 0 writes in it
}

// GetTo appends to a buffer of the caller, so a loop of lookups need not allocate. For an absent
// key the buffer does not change.
func ExampleDB_GetTo() {
	store := openMem()
	defer store.Close()
	must(store.Put([]byte("one"), []byte("eins"), nil))
	must(store.Put([]byte("two"), []byte("zwei"), nil))
	buf := make([]byte, 0, 64)
	for _, key := range []string{"one", "two", "three"} {
		var err error
		buf, err = store.GetTo(buf[:0], []byte(key))
		fmt.Printf("%q %v\n", buf, err)
	}
	// Output:
	// "eins" <nil>
	// "zwei" <nil>
	// "" sievedb: not found
}

// MultiGet looks up several keys at one moment. A key without a value has a nil one.
func ExampleDB_MultiGet() {
	store := openMem()
	defer store.Close()
	must(store.Put([]byte("bee"), []byte("6 legs"), nil))
	must(store.Put([]byte("snake"), nil, nil))
	keys := [][]byte{[]byte("bee"), []byte("snake"), []byte("unicorn")}
	values, err := store.MultiGet(keys)
	must(err)
	for i, v := range values {
		fmt.Printf("%s: %q, stored: %t\n", keys[i], v, v != nil)
	}
	// Output:
	// bee: "6 legs", stored: true
	// snake: "", stored: true
	// unicorn: "", stored: false
}

// An iterator shows the database as it was when the iterator was made. LowerBound is in the range, UpperBound is not.
func ExampleIterator_All() {
	store := openMem()
	defer store.Close()
	for _, key := range []string{"apple", "banana", "cherry", "date"} {
		must(store.Put([]byte(key), []byte("a fruit"), nil))
	}
	it, err := store.NewIterator(&db.IterOptions{LowerBound: []byte("b"), UpperBound: []byte("date")})
	must(err)
	defer it.Close()
	must(store.Delete([]byte("banana"), nil))
	for key, value := range it.All() {
		fmt.Printf("%s: %s\n", key, value)
	}
	must(it.Err()) // whether the loop saw everything
	// Output:
	// banana: a fruit
	// cherry: a fruit
}

// A new iterator is before the first key. After the last one, Prev turns back to it.
func ExampleIterator_Next() {
	store := openMem()
	defer store.Close()
	for _, name := range []string{"Monday", "Sunday", "Friday"} {
		must(store.Put([]byte(name), nil, nil))
	}
	it, err := store.NewIterator(nil)
	must(err)
	defer it.Close()
	for it.Next() {
		fmt.Printf("%s\n", it.Key())
	}
	fmt.Println("and back")
	for it.Prev() {
		fmt.Printf("%s\n", it.Key())
	}
	must(it.Err()) // whether the loops saw everything
	// Output:
	// Friday
	// Monday
	// Sunday
	// and back
	// Sunday
	// Monday
	// Friday
}

// Movements return whether the iterator is at a key afterwards.
func ExampleIterator_SeekLT() {
	store := openMem()
	defer store.Close()
	for _, day := range []string{"2024-02-28", "2024-02-29", "2024-03-01"} {
		must(store.Put([]byte(day), nil, nil))
	}
	it, err := store.NewIterator(nil)
	must(err)
	defer it.Close()
	for ok := it.SeekLT([]byte("2024-03")); ok; ok = it.Prev() {
		fmt.Printf("%s\n", it.Key())
	}
	must(it.Err())
	// Output:
	// 2024-02-29
	// 2024-02-28
}

// A snapshot keeps showing the database as it was when the snapshot was created.
func ExampleDB_NewSnapshot() {
	store := openMem()
	defer store.Close()
	must(store.Put([]byte("motto"), []byte("slow and steady"), nil))
	before := store.NewSnapshot()
	defer before.Close()
	must(store.Put([]byte("motto"), []byte("move fast"), nil))

	then, err := before.Get([]byte("motto"))
	must(err)
	now, err := store.Get([]byte("motto"))
	must(err)
	fmt.Printf("then: %s\nnow: %s\n", then, now)
	// Output:
	// then: slow and steady
	// now: move fast
}

// Explain reports what a lookup did. Here two tables may contain the key: the filter of the newer one excludes it, so
// only the older one is read. (String returns the same as text for people, with times.)
func ExampleDB_Explain() {
	store := openMem()
	defer store.Close()
	for _, keys := range [][]string{{"ant", "bee", "spider"}, {"apple", "cherry", "zucchini"}} {
		for _, key := range keys {
			must(store.Put([]byte(key), []byte("a value"), nil))
		}
		must(store.Flush()) // makes a table of level 0
	}
	x, err := store.Explain([]byte("bee"))
	must(err)
	for _, s := range x.Steps {
		fmt.Printf("%-8s  filter: %-6s  found: %-5v  block from disk: %v\n", s.Run, s.Filter, s.Found, s.BlockFromDisk)
	}
	fmt.Printf("disk reads %d, saved %d, wasted %d\n", x.DiskReads, x.ReadsSaved, x.ReadsWasted)
	// Output:
	// memtable  filter: none    found: false  block from disk: false
	// table     filter: absent  found: false  block from disk: false
	// table     filter: maybe   found: true   block from disk: true
	// disk reads 1, saved 1, wasted 0
}

// Metrics counts the lookups of each level and what filters saved.
func ExampleDB_Metrics() {
	store := openMem()
	defer store.Close()
	for i := range 1000 {
		must(store.Put(fmt.Appendf(nil, "user%d", i), []byte("a value"), db.NoSync))
	}
	must(store.Flush())
	for i := range 1000 {
		_, err := store.Get(fmt.Appendf(nil, "user%d ", i)) // none of them is stored
		if err != db.ErrNotFound {
			log.Fatal(err)
		}
	}
	m := store.Metrics()
	l := m.Levels[0]
	fmt.Println("lookups:", m.Lookups.Count, "found:", m.Lookups.Found)
	fmt.Println("each check is a negative or a false positive:", l.FilterNegatives+l.FilterFalsePositives == l.FilterChecks)
	fmt.Println("at most 2 % false positives:", l.FilterFalsePositives <= 20)
	fmt.Println("filters in memory:", m.Tables.FilterBytes > 0)
	// Output:
	// lookups: 1000 found: 0
	// each check is a negative or a false positive: true
	// at most 2 % false positives: true
	// filters in memory: true
}

// A prefix filter saves scans that find nothing: the keys of orders begin with their customer, and
// most tables have no orders of most customers.
func ExamplePrefixBounds() {
	customer := rangefilter.NewPrefix(rangefilter.SeparatedPrefix('/', 1), 10)
	store, err := db.Open("orders", &db.Options{
		FS: vfs.NewMem(), Filters: db.FilterOptions{RangePolicies: []rangefilter.Policy{customer}},
	})
	must(err)
	defer store.Close()
	for c := 0; c < 1000; c += 2 {
		for n := range 3 {
			must(store.Put(fmt.Appendf(nil, "customer%04d/order%d", c, n), []byte("…"), db.NoSync))
		}
	}
	must(store.Flush())
	for _, c := range []string{"customer0500/", "customer0501/"} {
		it, err := store.NewIterator(db.PrefixBounds([]byte(c)))
		must(err)
		orders := 0
		for range it.All() {
			orders++
		}
		must(it.Close())
		m := store.Metrics().Total()
		fmt.Println(c, orders, "orders, tables skipped:", m.RangeNegatives, "of", m.RangeChecks)
	}
	// Output:
	// customer0500/ 3 orders, tables skipped: 0 of 1
	// customer0501/ 0 orders, tables skipped: 1 of 2
}

func ExampleDB_NewLoader() {
	store := openMem()
	defer store.Close()
	l, err := store.NewLoader()
	must(err)
	defer l.Close()                                         // discards what is not committed
	for _, animal := range []string{"ant", "bee", "crab"} { // in the order of keys
		must(l.Put([]byte(animal), []byte("legs")))
	}
	_, err = store.Get([]byte("bee"))
	fmt.Println("before:", err)
	must(l.Commit())
	value, err := store.Get([]byte("bee"))
	fmt.Printf("after: %s, %v\n", value, err)
	// Output:
	// before: sievedb: not found
	// after: legs, <nil>
}

// A batch can be sent elsewhere: its bytes are LevelDB's.
func ExampleBatch_MarshalBinary() {
	var writes db.Batch
	writes.Put([]byte("apple"), []byte("red"))
	writes.Delete([]byte("pear"))
	data, err := writes.MarshalBinary()
	must(err)

	var received db.Batch
	must(received.UnmarshalBinary(data))
	for i, entry := range received.All() {
		fmt.Printf("%d: %s, delete: %t\n", i, entry.Key, entry.Kind == db.EntryDelete)
	}
	// Output:
	// 0: apple, delete: false
	// 1: pear, delete: true
}

// A custom comparer: keys in descending order. The database contains its name and opens only with a
// comparer of that name.
func ExampleComparer() {
	descending := &sievedb.Comparer{
		Name:    "example.descending",
		Compare: func(a, b []byte) int { return bytes.Compare(b, a) },
	}
	store, err := db.Open("example", &db.Options{FS: vfs.NewMem(), Comparer: descending})
	must(err)
	defer store.Close()
	for _, key := range []string{"a", "b", "c"} {
		must(store.Put([]byte(key), nil, db.NoSync))
	}
	it, err := store.NewIterator(nil)
	must(err)
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		fmt.Printf("%s ", it.Key())
	}
	fmt.Println(it.Err())
	// Output: c b a <nil>
}

// A CorruptionError says where the damage is.
func ExampleCorruptionError() {
	fsys := vfs.NewMem()
	must(fsys.MkdirAll("example"))
	file, err := fsys.Create("example/CURRENT")
	must(err)
	_, err = file.Write([]byte("no name\n"))
	must(err)
	store, err := db.Open("example", &db.Options{FS: fsys})
	if err == nil {
		panic(store.Close())
	}
	var damage *sievedb.CorruptionError
	if errors.As(err, &damage) {
		fmt.Println(damage.Part, "at offset", damage.Offset)
	}
	fmt.Println(errors.Is(err, db.ErrCorruption))
	// Output:
	// CURRENT at offset 0
	// true
}
