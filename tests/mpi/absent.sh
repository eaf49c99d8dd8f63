# Runs a program, except as rank 1, which never comes up: it ends without a word, or stops.
how=$1
shift
if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ]; then
    [ "$how" = stops ] && kill -STOP $$
    exit 0
fi
exec "$@"
