package db_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sievedb/sievedb/db"
)

// The code of the recipes in docs/cookbook.md is in the files example_cookbook_*_test.go, line for line.

type person struct{ ID, Name, City string }

// people has persons by ID, and an index of the IDs by city: one namespace for each city.
type people struct {
	store        *db.DB
	byID, byCity *db.Namespace
}

func openPeople(store *db.DB) (p people, err error) {
	p.store = store
	if p.byID, err = store.Namespace("people"); err != nil {
		return p, err
	}
	p.byCity, err = store.Namespace("people by city")
	return p, err
}

// put writes a person and keeps the index true.
func (p people) put(one person) error {
	record, err := json.Marshal(one)
	if err != nil {
		return err
	}
	city, err := p.byCity.Namespace(one.City) // an error if the city is empty
	if err != nil {
		return err
	}
	return p.store.Update(func(t *db.Transaction) error {
		if err := p.removeFromIndex(t, one.ID); err != nil {
			return err
		}
		if err := p.byID.In(t).Put([]byte(one.ID), record); err != nil {
			return err
		}
		return city.In(t).Put([]byte(one.ID), nil)
	})
}

// removeFromIndex reads the old record in the same transaction, so that it removes the right entry.
func (p people) removeFromIndex(t *db.Transaction, id string) error {
	record, err := p.byID.In(t).Get([]byte(id))
	if errors.Is(err, db.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	var old person
	if err := json.Unmarshal(record, &old); err != nil {
		return err
	}
	city, err := p.byCity.Namespace(old.City)
	if err != nil {
		return err
	}
	return city.In(t).Delete([]byte(id))
}

// in returns the persons in a city. Index and records are read at one moment.
func (p people) in(name string) (found []person, err error) {
	city, err := p.byCity.Namespace(name)
	if err != nil {
		return nil, err
	}
	err = p.store.View(func(t *db.Transaction) error {
		var ids [][]byte
		entries, failed := city.In(t).All(nil)
		for id := range entries {
			ids = append(ids, append([]byte{}, id...)) // id is valid during this round only
		}
		if err := failed(); err != nil {
			return err
		}
		records, err := p.byID.In(t).MultiGet(ids)
		if err != nil {
			return err
		}
		found = make([]person, len(records))
		for i, record := range records {
			if err := json.Unmarshal(record, &found[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

func Example_cookbookIndex() {
	store := openMem()
	defer store.Close()

	p, err := openPeople(store)
	must(err)
	must(p.put(person{ID: "17", Name: "Anna", City: "Graz"}))
	must(p.put(person{ID: "18", Name: "Ben", City: "Linz"}))
	must(p.put(person{ID: "17", Name: "Anna", City: "Linz"})) // she moves
	for _, city := range []string{"Graz", "Linz"} {
		found, err := p.in(city)
		fmt.Println(city, found, err)
	}
	// Output:
	// Graz [] <nil>
	// Linz [{17 Anna Linz} {18 Ben Linz}] <nil>
}
