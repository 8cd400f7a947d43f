#!/bin/sh
# operators.sh AOTC FILE: the committed table of operators is what aotc says of itself.
"$1" ops --markdown | diff "$2" - && exit 0
echo "$2 is out of date: aotc ops --markdown > $2" >&2
exit 1
