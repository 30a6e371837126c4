package postgres

import (
	"fmt"
	"strings"

	"exactly/internal/tables"
)

// tableName is a table with its schema; "" is the first of the search path.
type tableName struct{ schema, table string }

// parseName takes what a user writes: table or schema.table, each in double
// quotes where it holds a dot. Case is kept, as everywhere in a pipeline file.
func parseName(s string) (tableName, error) {
	var parts []string
	for rest := s; ; {
		var part string
		if strings.HasPrefix(rest, `"`) {
			end := closing(rest)
			if end < 0 {
				return tableName{}, fmt.Errorf("the name %s lacks a closing quote", s)
			}
			part, rest = strings.ReplaceAll(rest[1:end], `""`, `"`), rest[end+1:]
		} else {
			end := strings.IndexByte(rest, '.')
			if end < 0 {
				end = len(rest)
			}
			part, rest = rest[:end], rest[end:]
		}
		parts = append(parts, part)
		if part == "" || rest != "" && rest[0] != '.' {
			return tableName{}, fmt.Errorf("%q is not the name of a table: write table or schema.table, and names with dots in double quotes", s)
		}
		if rest == "" {
			break
		}
		rest = rest[1:]
	}
	switch len(parts) {
	case 1:
		return tableName{table: parts[0]}, nil
	case 2:
		return tableName{schema: parts[0], table: parts[1]}, nil
	}
	return tableName{}, fmt.Errorf("%q has %d parts, want table or schema.table", s, len(parts))
}

// closing finds the quote that ends the name at the start of s.
func closing(s string) int {
	for i := 1; i < len(s); i++ {
		if s[i] != '"' {
			continue
		}
		if i+1 < len(s) && s[i+1] == '"' {
			i++
			continue
		}
		return i
	}
	return -1
}

// String is the name as SQL.
func (n tableName) String() string {
	if n.schema == "" {
		return tables.Quote(n.table)
	}
	return tables.Quote(n.schema) + "." + tables.Quote(n.table)
}

// beside gives another name the schema of n, unless it has one.
func (n tableName) beside(other tableName) tableName {
	if other.schema == "" {
		other.schema = n.schema
	}
	return other
}

// literal makes a string constant of any text.
func literal(s string) string {
	return "'" + strings.ReplaceAll(s, "'", "''") + "'" // standard_conforming_strings is set at the connection
}

// QuoteTable gives the name of a table, as a pipeline file has it, in the form that
// SQL takes.
func QuoteTable(name string) (string, error) {
	n, err := parseName(name)
	if err != nil {
		return "", err
	}
	return n.String(), nil
}
