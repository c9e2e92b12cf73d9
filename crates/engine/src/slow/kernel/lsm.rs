//! The security module's word on a process: AppArmor's profile, or SELinux's context. What it says of
//! networks holds for the kernel's sockets, of which an offloaded connection has none.

/// The profile that confines a process, if one does.
pub fn profile(pid: u32) -> Option<String> {
    let said = std::fs::read_to_string(format!("/proc/{pid}/attr/current")).ok()?;
    confining(&said).map(str::to_owned)
}

/// "unconfined" is AppArmor's, "unconfined_u:unconfined_r:unconfined_t:s0" SELinux's; a profile that
/// only complains hinders nothing.
fn confining(said: &str) -> Option<&str> {
    let said = said.trim_end_matches(['\n', '\0']);
    let free = said.is_empty()
        || said == "unconfined"
        || said == "kernel"
        || said.contains(":unconfined_t:")
        || said.ends_with("(complain)")
        || said.ends_with("(unconfined)");
    (!free).then_some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_confined_is_told_from_who_is_not() {
        let apparmor = "/usr/sbin/nginx (enforce)\n";
        assert_eq!(confining(apparmor), Some("/usr/sbin/nginx (enforce)"));
        let selinux = "system_u:system_r:httpd_t:s0\0";
        assert_eq!(confining(selinux), Some("system_u:system_r:httpd_t:s0"));
        for free in [
            "",
            "unconfined\n",
            "kernel",
            "unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023\0",
            "nginx (complain)\n",
            "chrome (unconfined)\n",
        ] {
            assert_eq!(confining(free), None, "{free}");
        }
        assert_eq!(profile(u32::MAX), None, "a process that is gone");
    }
}
