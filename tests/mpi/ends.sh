# Runs a program as a part of itself, and ends with an exit code of its own when it is told to: a process that ends in the middle of things.
"$@" &
program=$!
trap 'kill -KILL $program; exit 3' USR1
wait $program
