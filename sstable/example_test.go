package sstable_test

import (
	"fmt"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

// A table is written and read without a store.
func Example() {
	fsys := vfs.NewMem()
	file, err := fsys.Create("000001.ldb")
	if err != nil {
		panic(err)
	}
	bloom := filter.NewBloomPolicy(10)
	writer := sstable.NewWriter(file, sstable.WriterOptions{Filter: bloom})
	for i, name := range []string{"apple", "pear", "quince"} {
		key := sstable.Key{User: []byte(name), Seq: uint64(i + 1), Deletion: name == "pear"}
		value := fmt.Sprint("number ", i)
		if key.Deletion {
			value = ""
		}
		if err := writer.Add(key.Append(nil), []byte(value)); err != nil {
			panic(err)
		}
	}
	if _, err := writer.Finish(); err != nil {
		panic(err)
	}
	if err := file.Close(); err != nil {
		panic(err)
	}

	if file, err = fsys.Open("000001.ldb"); err != nil {
		panic(err)
	}
	table, err := sstable.Open(file, sstable.ReaderOptions{Policies: []filter.Policy{bloom}})
	if err != nil {
		panic(err)
	}
	defer table.Close()
	it, err := table.NewIter(sstable.IterOptions{})
	if err != nil {
		panic(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		key, _ := sstable.ParseKey(it.Key())
		fmt.Printf("%s, sequence %d, deletion %t: %q\n", key.User, key.Seq, key.Deletion, it.Value())
	}
	fmt.Println(it.Err())
	// Output:
	// apple, sequence 1, deletion false: "number 0"
	// pear, sequence 2, deletion true: ""
	// quince, sequence 3, deletion false: "number 2"
	// <nil>
}
