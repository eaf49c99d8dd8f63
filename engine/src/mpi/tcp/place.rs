//! Where processes that were started without MPI meet, by the environment of their launcher.

use std::env;

use super::meet::MeetError;
use super::proof::{Key, Secret};

/// Names the place where processes meet, `HOST:PORT` of rank 0, before what launchers say.
pub const MEET_VARIABLE: &str = "ZIPWIRE_MEET";

/// Holds a secret that all processes of a job share.
pub(super) const SECRET_VARIABLE: &str = "ZIPWIRE_MEET_SECRET";

/// Variable that is there whenever `torchrun` has started a process.
const TORCH_RUN: &str = "TORCHELASTIC_RUN_ID";

/// Ports that jobs of SLURM meet at: below those that systems give to clients.
const FIRST_PORT: u64 = 10_000;
const PORTS: u64 = 20_000;

/// A meeting of processes by TCP: who this process is, and where all meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpMeeting {
    pub(super) rank: u32,
    pub(super) size: u32,
    pub(super) place: Place,
    /// Name of the run, which all share and no other run has.
    pub(super) run: String,
    secret: Secret,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Rank 0 listens here.
    Rank0 { host: String, port: u16 },
    /// The store of the launcher says where rank 0 listens.
    Store { host: String, port: u16 },
}

impl TcpMeeting {
    /// The meeting that the environment tells of; `None` if nothing has started this process as one of several.
    ///
    /// Rank and number of ranks are `RANK` and `WORLD_SIZE`, as `torchrun` sets them, else `SLURM_PROCID` and `SLURM_STEP_NUM_TASKS` or
    /// `SLURM_NTASKS`. The place is what [`MEET_VARIABLE`] says, else the store of `torchrun` at `MASTER_ADDR` and `MASTER_PORT`, or rank 0 at
    /// that address where the launcher keeps no store; else a port of the first host of the SLURM step, which its job and number give.
    /// Processes with another `ZIPWIRE_MEET_SECRET` are of another job.
    ///
    /// # Errors
    /// If variables lack or contradict one another.
    pub fn from_environment() -> Result<Option<Self>, MeetError> {
        Self::of(variable)
    }

    /// Whether this process is to meet by TCP where a launcher of MPI seems to have started it, too: if [`MEET_VARIABLE`] says so, and under
    /// `torchrun`, whose processes inherit the variables of the `srun` or `mpirun` around it, all with the same rank.
    pub fn is_preferred() -> bool {
        Variables(variable).prefer_tcp()
    }

    /// A meeting at a port that rank 0 listens on; all name the same `run`, and share no secret.
    ///
    /// # Panics
    /// If `rank` is not below `size`.
    pub fn at(host: &str, port: u16, rank: u32, size: u32, run: &str) -> Self {
        assert!(rank < size, "rank {rank} of {size}");
        let place = Place::Rank0 { host: host.to_owned(), port };
        Self { rank, size, place, run: run.to_owned(), secret: Secret::default() }
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, MeetError> {
        let variables = Variables(variable);
        let place = variables.get(MEET_VARIABLE).map(|text| address(&text)).transpose()?;
        let by_torch = variables.get("RANK").is_some() && variables.get("WORLD_SIZE").is_some();
        let size = |name| variables.get(name).is_some();
        let slurm_size = ["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"].into_iter().find(|name| size(name));
        let (rank, size) = match slurm_size {
            _ if by_torch => ("RANK", "WORLD_SIZE"),
            Some(size) if variables.get("SLURM_PROCID").is_some() => ("SLURM_PROCID", size),
            _ if place.is_some() => return Err(MeetError::NoRank),
            _ => return Ok(None),
        };
        let (rank, size) = (variables.number(rank)?, variables.number(size)?);
        if rank >= size {
            return Err(MeetError::Rank { rank, size });
        }
        let (place, run) = match place {
            Some((host, port)) => (Place::Rank0 { host, port }, variables.run()),
            None if by_torch => (variables.of_torch()?, variables.run()),
            None => (variables.of_slurm()?, variables.run()),
        };
        let secret = Secret(variables.get(SECRET_VARIABLE).unwrap_or_default());
        Ok(Some(Self { rank, size, place, run, secret }))
    }

    /// Key of the job at the meeting with this number; 0 where a process does not know that yet.
    pub(super) fn key(&self, number: u64) -> Key {
        Key::new(&self.secret, &self.run, number)
    }
}

fn variable(name: &str) -> Option<String> {
    // A value that is no text is not taken for none.
    env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

struct Variables<F>(F);

impl<F: Fn(&str) -> Option<String>> Variables<F> {
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn needed(&self, name: &'static str) -> Result<String, MeetError> {
        self.get(name).ok_or(MeetError::NoVariable { name })
    }

    fn number<N: std::str::FromStr>(&self, name: &'static str) -> Result<N, MeetError> {
        let value = self.needed(name)?;
        value.parse().map_err(|_| MeetError::Variable { name, value })
    }

    fn of_torch(&self) -> Result<Place, MeetError> {
        let (host, port) = (self.needed("MASTER_ADDR")?, self.number("MASTER_PORT")?);
        let has_store = self.get("TORCHELASTIC_USE_AGENT_STORE").as_deref() == Some("True");
        Ok(if has_store { Place::Store { host, port } } else { Place::Rank0 { host, port } })
    }

    fn of_slurm(&self) -> Result<Place, MeetError> {
        let hosts = self.get("SLURM_STEP_NODELIST").map_or_else(|| self.needed("SLURM_JOB_NODELIST"), Ok)?;
        let (job, step): (u64, u64) = (self.number("SLURM_JOB_ID")?, self.number("SLURM_STEP_ID")?);
        // Jobs that follow one another have different ports.
        let port = FIRST_PORT + (job.wrapping_mul(31).wrapping_add(step.wrapping_mul(7))) % PORTS;
        Ok(Place::Rank0 { host: first_host(&hosts), port: u16::try_from(port).expect("it is below 2^16") })
    }

    fn prefer_tcp(&self) -> bool {
        [MEET_VARIABLE, TORCH_RUN].iter().any(|name| self.get(name).is_some())
    }

    /// Name of the run, as the launcher says it.
    fn run(&self) -> String {
        let names = [TORCH_RUN, "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID", "SLURM_STEP_ID"];
        let (torch, slurm) = names.split_at(2);
        let names = if self.get(torch[0]).is_some() { torch } else { slurm };
        names.iter().filter_map(|name| self.get(name)).collect::<Vec<_>>().join("/")
    }
}

fn address(text: &str) -> Result<(String, u16), MeetError> {
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let wrong = || MeetError::Variable { name: MEET_VARIABLE, value: text.to_owned() };
    let (host, port) = parts.filter(|(host, port)| !host.is_empty() && *port > 0).ok_or_else(wrong)?;
    Ok((host.trim_start_matches('[').trim_end_matches(']').to_owned(), port))
}

/// First host of a list as SLURM writes it: `node[03-07,9],other`.
fn first_host(list: &str) -> String {
    let mut host = String::new();
    let mut rest = list;
    while let Some(end) = rest.find([',', '[']) {
        host.push_str(&rest[..end]);
        if rest[end..].starts_with(',') {
            return host;
        }
        let inside = &rest[end + 1..];
        host.push_str(&inside[..inside.find(['-', ',', ']']).unwrap_or(inside.len())]);
        rest = inside.split_once(']').map_or("", |(_, rest)| rest);
    }
    host + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Option<TcpMeeting>, MeetError> {
        TcpMeeting::of(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn found(variables: &[(&str, &str)]) -> (u32, u32, Place, String) {
        let TcpMeeting { rank, size, place, run, .. } = of(variables).unwrap().unwrap();
        (rank, size, place, run)
    }

    const TORCH: [(&str, &str); 6] = [
        ("RANK", "3"),
        ("WORLD_SIZE", "8"),
        ("MASTER_ADDR", "head"),
        ("MASTER_PORT", "29500"),
        ("TORCHELASTIC_RUN_ID", "job"),
        ("TORCHELASTIC_RESTART_COUNT", "2"),
    ];

    #[test]
    fn torchrun_has_a_store_where_it_says_so() {
        let (host, port) = ("head".to_owned(), 29_500);
        let place = Place::Rank0 { host: host.clone(), port };
        assert_eq!(found(&TORCH), (3, 8, place, "job/2".to_owned()));
        let with_store = [&TORCH[..], &[("TORCHELASTIC_USE_AGENT_STORE", "True")]].concat();
        assert_eq!(found(&with_store).2, Place::Store { host, port });
        let error = of(&TORCH[..3]).unwrap_err().to_string();
        assert!(error.starts_with("`MASTER_PORT` is not set"), "{error}");
    }

    #[test]
    fn slurm_gives_a_port_by_job_and_step() {
        let slurm = [
            ("SLURM_PROCID", "1"),
            ("SLURM_NTASKS", "4"),
            ("SLURM_JOB_NODELIST", "gpu[07-09],other"),
            ("SLURM_JOB_ID", "1234"),
            ("SLURM_STEP_ID", "1"),
        ];
        let place = Place::Rank0 { host: "gpu07".to_owned(), port: 28_261 };
        assert_eq!(found(&slurm), (1, 4, place, "1234/1".to_owned()));
        let step = [("SLURM_STEP_NODELIST", "x1,x2"), ("SLURM_STEP_NUM_TASKS", "2")];
        let (rank, size, place, _) = found(&[&slurm[..], &step].concat());
        assert_eq!((rank, size, place), (1, 2, Place::Rank0 { host: "x1".to_owned(), port: 28_261 }));
    }

    #[test]
    fn the_variable_goes_before_launchers_and_needs_a_rank() {
        let meet = [(MEET_VARIABLE, "[fe80::1]:4000")];
        let place = Place::Rank0 { host: "fe80::1".to_owned(), port: 4000 };
        assert_eq!(found(&[&TORCH[..], &meet].concat()).2, place);
        assert!(of(&meet).unwrap_err().to_string().contains("`RANK` and `WORLD_SIZE`"));
        for wrong in ["host", "host:", ":1", "host:0", "host:70000"] {
            let error = of(&[(MEET_VARIABLE, wrong)]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`ZIPWIRE_MEET` is `{wrong}`")), "{error}");
        }
    }

    #[test]
    fn tcp_goes_before_mpi_where_it_is_asked_for_and_under_torchrun() {
        let prefers = |variables: &[(&str, &str)]| {
            let value =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|own| own.1.to_owned());
            Variables(value).prefer_tcp()
        };
        let srun = [("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "slurm.pmix.7.0"), ("SLURM_PROCID", "0")];
        assert!(!prefers(&srun));
        assert!(prefers(&[&srun[..], &TORCH].concat()));
        assert!(prefers(&[&srun[..], &[(MEET_VARIABLE, "head:4000")]].concat()));
        assert!(!prefers(&[&srun[..], &[(MEET_VARIABLE, " ")]].concat()), "it is not set");
    }

    #[test]
    fn nobody_meets_without_a_launcher_and_wrong_ranks_are_named() {
        assert_eq!(of(&[]).unwrap(), None);
        assert_eq!(of(&[("RANK", "1")]).unwrap(), None);
        let error = of(&[("RANK", "4"), ("WORLD_SIZE", "4")]).unwrap_err().to_string();
        assert!(error.starts_with("this process is rank 4 of 4"), "{error}");
        let error = of(&[("RANK", "x"), ("WORLD_SIZE", "4")]).unwrap_err().to_string();
        assert!(error.starts_with("`RANK` is `x`"), "{error}");
    }

    #[test]
    fn first_hosts_of_lists() {
        for (list, first) in [
            ("one", "one"),
            ("one,two", "one"),
            ("n[1-3]", "n1"),
            ("n[03,05-09]-ib,m1", "n03-ib"),
            ("r[1-2]n[4-8]", "r1n4"),
            ("n[5]", "n5"),
        ] {
            assert_eq!(first_host(list), first, "{list}");
        }
    }
}
